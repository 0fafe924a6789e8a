"""`planc tiny`: save a tiny random pipeline of a plan's architecture."""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from planc import pipeline
from planc.catalog.lookup import Lookup
from planc.commands import CLEAN, FINDINGS, USAGE
from planc.commands.plans import add_plan, is_unreadable, show
from planc.diagnostics import Findings
from planc.report.progress import working

if TYPE_CHECKING:
    from planc.verify.tiny import Tiny

HELP = "save a tiny random pipeline of a plan's architecture"
DESCRIPTION = """\
Writes a folder that the plan's scripts take as --checkpoint: the same classes and structure, small, with random
weights of a fixed seed. Needs no network. Needs torch: pip install 'planc[verify]'."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the verb's options."""
    add_plan(parser)
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="DIR", help="folder to write; must be new or empty"
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of the weights (default: 0)")


def run(args: argparse.Namespace) -> int:
    """Check the plan and save its pipeline."""
    findings, texts = Findings(), dict[str, str]()
    checked = pipeline.check(args.plan, texts, findings)
    show(findings, texts)
    if checked is None:
        return USAGE if is_unreadable(findings) else FINDINGS
    if args.output.exists() and (not args.output.is_dir() or any(args.output.iterdir())):
        print(f"planc tiny: {args.output} exists and is not an empty folder", file=sys.stderr)
        return USAGE
    made = save_tiny(next(iter(checked.lookups.values())), args.output, seed=args.seed)
    if made is None:
        return USAGE
    print(f"wrote {made.folder}: {made.parameters:,} random parameters; run a script on it with")
    print(f"  {shlex.join(script_options(made))}")
    return CLEAN


def script_options(made: Tiny) -> list[str]:
    """The options with which a generated script runs on the tiny pipeline."""
    size = made.size
    options = ["--checkpoint", str(made.folder), "--dtype", "float32"]
    options += ["--height", str(size.height), "--width", str(size.width)]
    if size.num_frames is not None:
        options += ["--num-frames", str(size.num_frames)]
    if made.image is not None:
        options += ["--image", str(made.image)]
    return options


def save_tiny(known: Lookup, folder: Path, *, seed: int = 0) -> Tiny | None:
    """Save the tiny pipeline of a model; None, with a message, where torch is not installed or it cannot be saved."""
    assert known.pipeline_name is not None
    try:
        with working(f"making a tiny {known.pipeline_name}"):
            from planc.verify import tiny

            return tiny.save(known, folder, seed=seed)
    except ModuleNotFoundError as error:
        print(f"planc: {error.name} is not installed: pip install 'planc[verify]'", file=sys.stderr)
    except OSError as error:
        print(f"planc: cannot write {folder}: {error}", file=sys.stderr)
    return None
