"""`planc schema`: print the JSON Schema of plans."""

from __future__ import annotations

import argparse
import sys

from planc import resources
from planc.commands import CLEAN

HELP = "print the JSON Schema of plans, for editors"
DESCRIPTION = """\
Prints the JSON Schema of the plan format. Save it and point your editor at it:
  planc schema > plan.schema.json
  # yaml-language-server: $schema=plan.schema.json     as the first line of a plan"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the verb's options: none."""


def run(args: argparse.Namespace) -> int:
    """Print."""
    del args
    sys.stdout.write(resources.text("schemas", "plan.schema.json"))
    return CLEAN
