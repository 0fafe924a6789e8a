"""`planc sync`: for planc's own developers, keep what is generated in step with its one source."""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Callable
from pathlib import Path

from planc import resources
from planc.commands import CLEAN, FINDINGS, USAGE
from planc.report.progress import working

HELP = "for planc's developers: schema, docs and card inventories in step with their source"
DESCRIPTION = """\
Writes schemas/ from planc/spec.py and the card records, the reference docs from the same, and each model card's
inventory from the installed diffusers. --check writes nothing and fails with a diff. Card inventories need torch."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the verb's options."""
    parser.add_argument(
        "--check", action="store_true", help="write nothing; fail with the diff if something is out of step"
    )
    parser.add_argument("--no-cards", action="store_true", help="leave the card inventories out: no torch needed")


def run(args: argparse.Namespace) -> int:
    """Generate everything, then write or compare."""
    root = resources.PACKAGE.parent
    if not (root / "pyproject.toml").is_file():
        print("planc sync: this is no checkout of planc; sync serves its developers", file=sys.stderr)
        return USAGE
    from planc.commands import reference

    wanted: dict[Path, Callable[[], str]] = {root / path: make for path, make in reference.FILES.items()}
    if not args.no_cards:
        wanted.update(_inventories())
    stale = 0
    for path, make in wanted.items():
        try:
            with working(f"making {path.relative_to(root).as_posix()}"):
                text = make()
        except ModuleNotFoundError as error:
            print(
                f"planc sync: {error.name} is not installed: pip install 'planc[verify]', or --no-cards",
                file=sys.stderr,
            )
            return USAGE
        now = path.read_text(encoding="utf-8") if path.exists() else ""
        if now == text:
            continue
        stale += 1
        shown = path.relative_to(root).as_posix()
        if args.check:
            print(
                "\n".join(
                    difflib.unified_diff(now.splitlines(), text.splitlines(), shown, "from its source", lineterm="")
                )
            )
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            print(f"wrote {shown}")
    if args.check and stale:
        print(f"{stale} of {len(wanted)} files are out of step: run `planc sync`", file=sys.stderr)
        return FINDINGS
    return CLEAN


def _inventories() -> dict[Path, Callable[[], str]]:
    from planc.catalog import card, schedulers

    def scheduler_names() -> str:
        from planc.verify import schedulers as found

        return found.dump(found.generate())

    def make(class_name: str) -> Callable[[], str]:
        def text() -> str:
            from planc.verify import inventory

            return inventory.dump(inventory.generate(class_name))

        return text

    return {schedulers.PATH: scheduler_names} | {card.inventory_path(name): make(name) for name in card.class_names()}
