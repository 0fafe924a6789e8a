"""`planc init`: write a first plan."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from planc.catalog.lookup import cards, lookup
from planc.commands import CLEAN, USAGE
from planc.load import SUFFIXES
from planc.shape import bad_name, suggest
from planc.spec import NAME_PATTERN

HELP = "write a first plan"
DESCRIPTION = "Writes a plan for a model that planc knows, with a target for each way to run it. Change it from there."


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the verb's options."""
    parser.add_argument("plan", type=Path, metavar="PLAN", help="the file to write, such as plans/mine.yaml")
    parser.add_argument(
        "--checkpoint", default="black-forest-labs/FLUX.2-klein-4B", metavar="ID", help="hub id (default: %(default)s)"
    )
    parser.add_argument("--force", action="store_true", help="write over an existing file")


def run(args: argparse.Namespace) -> int:
    """Write the plan."""
    path: Path = args.plan
    if path.suffix not in SUFFIXES or not re.match(NAME_PATTERN, path.stem):
        from planc.diagnostics import Span

        fault = bad_name(path.stem, Span(str(path), 1, 1, 1, 1))
        print(f"planc init: {path}: a plan is a .yaml file; {fault.hint}", file=sys.stderr)
        return USAGE
    known = lookup(args.checkpoint, None)
    if known.checkpoint is None or known.pipeline is None or known.card is None:
        ids = [name for card in cards() for name in card.facts.checkpoints]
        near = suggest(args.checkpoint, ids)
        hint = f"did you mean {near}?" if near else f"known: {', '.join(ids)}"
        print(f"planc init: no card knows the checkpoint {args.checkpoint!r}; {hint}", file=sys.stderr)
        return USAGE
    if path.exists() and not args.force:
        print(f"planc init: {path} exists; --force writes over it", file=sys.stderr)
        return USAGE
    from planc.emit.first_plan import render_first_plan

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(render_first_plan(args.checkpoint, known), encoding="utf-8")
    except OSError as error:
        print(f"planc init: cannot write {path}: {error.strerror}", file=sys.stderr)
        return USAGE
    print(f"wrote {path}; next: planc build {path}")
    return CLEAN
