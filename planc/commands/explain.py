"""`planc explain`: tell one kind of finding in full."""

from __future__ import annotations

import argparse
import sys

from planc import pipeline
from planc.commands import CLEAN, USAGE
from planc.report import explanation
from planc.shape import suggest

HELP = "tell one kind of finding in full"
DESCRIPTION = "Tells what a finding means, why it is bad, an example of it, and what to write instead."


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the verb's options."""
    parser.add_argument("code", metavar="CODE", help="a code or a name, such as P301 or indivisible-heads")


def run(args: argparse.Namespace) -> int:
    """Print the documentation of one fault."""
    faults = {key: fault for fault in pipeline.faults() for key in (fault.code, fault.name)}
    fault = faults.get(args.code.upper()) or faults.get(args.code.lower())
    if fault is None:
        near = suggest(args.code.lower(), faults) or suggest(args.code.upper(), faults)
        hint = f"did you mean {near}?" if near else "`planc rules` lists them all"
        print(f"planc explain: there is no finding {args.code!r}; {hint}", file=sys.stderr)
        return USAGE
    print(explanation.text(fault))
    return CLEAN
