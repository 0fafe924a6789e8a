"""`planc lint`: everything that can be said of plans without torch."""

from __future__ import annotations

import argparse
import sys

from planc.commands import CLEAN, FINDINGS, USAGE
from planc.commands.plans import add_plans, check_all, is_unreadable
from planc.diagnostics import Findings
from planc.report import text

HELP = "check plans and say what is wrong, at its line"
DESCRIPTION = """\
Checks plans against the plan format and the rules (`planc rules` lists them). Needs no torch.
Exit code: 0 clean or notes only, 1 errors or warnings, 2 a file cannot be read."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the verb's options."""
    add_plans(parser)
    parser.add_argument("--format", choices=("text", "json"), default="text", help="what to print (default: text)")


def run(args: argparse.Namespace) -> int:
    """Lint and print."""
    findings, texts = Findings(), dict[str, str]()
    count = len(check_all(args.plans, texts, findings))
    items = list(findings)
    if args.format == "json":
        from planc.report import json

        print(json.render(items))
    elif items:
        print(text.render(items, texts, colour=text.wants_colour(sys.stdout)))
        print(f"\n{text.summary(items)}")
    else:
        print(f"{count} plan{'' if count == 1 else 's'} checked, nothing found")
    if is_unreadable(findings):
        return USAGE
    return FINDINGS if findings.fails_lint else CLEAN
