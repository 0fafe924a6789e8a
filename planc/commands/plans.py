"""What the verbs that take plans share: finding the files, checking them, and printing what was found."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from planc import pipeline
from planc.diagnostics import Diagnostic, Findings, Span
from planc.faults import UNREADABLE
from planc.load import SUFFIXES
from planc.pipeline import Checked
from planc.report import text


def add_plans(parser: argparse.ArgumentParser) -> None:
    """Add the argument that names plans."""
    parser.add_argument(
        "plans", nargs="+", metavar="PLAN", help="a plan file, or a folder whose *.yaml files are plans"
    )


def add_plan(parser: argparse.ArgumentParser) -> None:
    """Add the argument that names one plan."""
    parser.add_argument("plan", metavar="PLAN", help="a plan file")


def expand(names: Sequence[str], findings: Findings) -> list[str]:
    """The plan files that `names` mean; a folder stands for the plans in it, sorted."""
    paths: list[str] = []
    for name in names:
        folder = Path(name)
        try:
            if not name or not folder.is_dir():
                paths.append(folder.as_posix() if name else name)
                continue
            inside = sorted(path.as_posix() for path in folder.iterdir() if path.suffix in SUFFIXES)
        except OSError:
            paths.append(name)  # it may not be entered, or cannot be: reading it says why
            continue
        if not inside:
            findings.add(UNREADABLE.at(Span(name, 1, 1, 1, 1), f"the folder {name} holds no plan (*.yaml)"))
        paths += inside
    return list(dict.fromkeys(paths))


def check_all(names: Sequence[str], texts: dict[str, str], findings: Findings) -> list[Checked]:
    """The plans without errors among `names`; what is wrong with the others is in `findings`."""
    found = (pipeline.check(path, texts, findings) for path in expand(names, findings))
    return [checked for checked in found if checked is not None]


def show(diagnostics: Iterable[Diagnostic], texts: dict[str, str]) -> None:
    """Print diagnostics as text on standard error, and a line that counts them."""
    items, stream = list(diagnostics), sys.stderr
    if not items:
        return
    print(text.render(items, texts, colour=text.wants_colour(stream)), file=stream)
    print(f"\n{text.summary(items)}", file=stream)


def is_unreadable(findings: Findings) -> bool:
    """Whether a file could not be read at all: wrong usage, not a finding in a plan."""
    return any(item.code == UNREADABLE.code for item in findings)
