"""`planc build`: check plans and write what they become."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from planc import pipeline
from planc.commands import CLEAN, FINDINGS, USAGE
from planc.commands.plans import add_plans, check_all, is_unreadable, show
from planc.diagnostics import Findings, Span
from planc.faults import STALE_OUTPUT

if TYPE_CHECKING:
    from planc.emit.files import GeneratedFile
    from planc.ir import Program

HELP = "check plans, then write their scripts"
DESCRIPTION = """\
Checks each plan and writes, below the output folder, a script a target, the torchrun command of parallel targets,
tp_plan.py and a manifest. Nothing is written if any plan has an error. The same plan gives the same bytes.
Exit code: 0 written or up to date, 1 errors in a plan or stale output, 2 a file cannot be read or written."""
EPILOG = """\
examples:
  planc build plans/flux2.yaml              write generated/flux2/
  planc build plans --check                 in CI: fail with a diff if the committed output is stale
  planc build plans/flux2.yaml --target tp8 --show-program
                                            print what a target means, and where each value was said"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the verb's options."""
    add_plans(parser)
    parser.add_argument(
        "--output", type=Path, default=Path("generated"), metavar="DIR", help="output folder (default: generated)"
    )
    parser.add_argument("--check", action="store_true", help="write nothing; fail with a diff if the output is stale")
    parser.add_argument("--force", action="store_true", help="write over files that were edited by hand")
    parser.add_argument("--show-program", action="store_true", help="print the resolved program and write nothing")
    parser.add_argument("--target", metavar="NAME", help="with --show-program: only this target")


def run(args: argparse.Namespace) -> int:
    """Check, then show, compare or write."""
    if args.target and not args.show_program:
        print("planc build: --target goes with --show-program: a build writes all targets of a plan", file=sys.stderr)
        return USAGE
    findings, texts = Findings(), dict[str, str]()
    checked = check_all(args.plans, texts, findings)
    show(findings, texts)
    if findings.has_errors:
        return USAGE if is_unreadable(findings) else FINDINGS
    programs = [pipeline.resolve(item) for item in checked]
    if args.show_program:
        return _show_programs(programs, args.target)
    return write_programs(programs, args.output, is_check=args.check, is_forced=args.force)


def _show_programs(programs: list[Program], target: str | None) -> int:
    from planc.report import program as report

    known = [item.name for program in programs for item in program.targets]
    if target is not None and target not in known:
        print(f"planc build: there is no target {target!r}; targets: {', '.join(known)}", file=sys.stderr)
        return USAGE
    for program in programs:
        print(report.render(program, target))
    return CLEAN


def write_programs(programs: list[Program], output: Path, *, is_check: bool = False, is_forced: bool = False) -> int:
    """Emit programs below `output`; the exit code."""
    from planc.emit import write

    trees = [(program.folder, pipeline.emit(program)) for program in programs]
    doubled = [folder for folder, _ in trees if [name for name, _ in trees].count(folder) > 1]
    if doubled:
        print(f"planc build: two plans are called {doubled[0]!r} and would write the same folder", file=sys.stderr)
        return USAGE
    try:
        if is_check:
            return _check(output, trees)
        found = Findings()
        for folder, files in trees if not is_forced else ():
            found.add(*write.conflicts(output, folder, files))
        if len(found):
            show(found, {})
            return FINDINGS
        changes = write.write(output, trees)
    except (OSError, ValueError) as error:
        print(f"planc build: cannot write below {output}: {error}", file=sys.stderr)
        return USAGE
    for change in changes:
        print(f"{'removed' if change.wanted is None else 'wrote'} {change.path}", file=sys.stderr)
    if not changes:
        count = sum(len(files) for _, files in trees)
        print(f"{count} files below {output} are up to date", file=sys.stderr)
    return CLEAN


def _check(output: Path, trees: list[tuple[str, tuple[GeneratedFile, ...]]]) -> int:
    from planc.emit import write

    changes = [change for folder, files in trees for change in write.compare(output, folder, files)]
    found = Findings()
    for change in changes:
        what = "is missing" if change.now is None else "is left over" if change.wanted is None else "is stale"
        if change.now == change.wanted:
            what = "may not be executed"
        found.add(
            STALE_OUTPUT.at(Span(str(change.path), 1, 1, 1, 1), f"{change.path} {what}", hint="run `planc build`")
        )
        print(change.diff())
    show(found, {})
    return FINDINGS if changes else CLEAN
