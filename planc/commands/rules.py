"""`planc rules`: list every kind of finding."""

from __future__ import annotations

import argparse

from planc import pipeline
from planc.commands import CLEAN
from planc.report import explanation

HELP = "list every kind of finding"
DESCRIPTION = "Lists code, severity, name and meaning of every finding. `planc explain CODE` tells one in full."


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the verb's options: none."""


def run(args: argparse.Namespace) -> int:
    """Print a line a fault."""
    del args
    for fault in pipeline.faults():
        print(f"{fault.code}  {fault.severity.value:7}  {fault.name:22}  {explanation.summary(fault)}")
    return CLEAN
