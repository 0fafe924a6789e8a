"""`planc lint`: everything that can be said of plans without torch."""

from __future__ import annotations

import argparse
import sys

from planc import pipeline
from planc.commands import CLEAN, FINDINGS, USAGE
from planc.commands.plans import add_plans, check_all, is_unreadable
from planc.diagnostics import Diagnostic, Findings
from planc.report import text

HELP = "check plans and say what is wrong, at its line"
DESCRIPTION = """\
Checks plans against the plan format and the rules (`planc rules` lists them). Needs no torch.
Exit code: 0 clean or notes only, 1 errors or warnings, 2 a file cannot be read; the same in every format."""
EPILOG = """\
examples:
  planc lint plans                                  for people
  planc lint plans --format github                  in a GitHub workflow: findings beside the lines of a pull request
  planc lint plans --format sarif > planc.sarif     SARIF 2.1.0, for code scanning"""
FORMATS = ("text", "json", "github", "sarif")
"""What `--format` takes."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the verb's options."""
    add_plans(parser)
    parser.add_argument(
        "--format",
        choices=FORMATS,
        default="text",
        help="text for people (the default), json for programs, github for the log of a GitHub workflow, "
        "sarif for code scanning",
    )


def run(args: argparse.Namespace) -> int:
    """Lint and print."""
    findings, texts = Findings(), dict[str, str]()
    count = len(check_all(args.plans, texts, findings))
    items = list(findings)
    if args.format == "text":
        _print_text(items, texts, count)
    else:
        _print_for_programs(items, args.format)
    if is_unreadable(findings):
        return USAGE
    return FINDINGS if findings.fails_lint else CLEAN


def _print_text(items: list[Diagnostic], texts: dict[str, str], count: int) -> None:
    if items:
        print(text.render(items, texts, colour=text.wants_colour(sys.stdout)))
        print(f"\n{text.summary(items)}")
    else:
        print(f"{count} plan{'' if count == 1 else 's'} checked, nothing found")


def _print_for_programs(items: list[Diagnostic], form: str) -> None:
    from planc.report import github, json, sarif

    if form == "json":
        print(json.render(items))
    elif form == "sarif":
        print(sarif.render(items, pipeline.faults()))
    elif items:
        print(github.render(items))
