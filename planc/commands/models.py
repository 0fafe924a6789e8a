"""`planc models`: list the models that planc knows."""

from __future__ import annotations

import argparse
import sys

from planc.catalog import card as cards
from planc.catalog import expression
from planc.catalog.card import Card, Checkpoint
from planc.commands import CLEAN, USAGE
from planc.shape import suggest

HELP = "list the models that planc knows"
DESCRIPTION = """\
Lists every transformer class that planc has a card for, with its pipelines and checkpoints.
With a class, a pipeline or a checkpoint: its Linears at each checkpoint's size, and its own tensor-parallel plan."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the verb's options."""
    parser.add_argument("name", nargs="?", metavar="NAME", help="a class, a pipeline or a checkpoint")


def run(args: argparse.Namespace) -> int:
    """List all cards, or show one."""
    known = [cards.load(name) for name in cards.class_names()]
    if args.name is None:
        for card in known:
            print(f"{card.class_name}  {', '.join(card.facts.pipelines)}")
            for checkpoint, released in card.facts.checkpoints.items():
                heads = expression.evaluate(card.facts.heads, released.config)
                each = f"{len(released.denoisers)} denoisers of " if len(released.denoisers) > 1 else ""
                print(f"  {checkpoint}  {each}{released.parameters / 1e9:.2f}e9 parameters, {heads} heads")
        return CLEAN
    names = {name: card for card in known for name in (card.class_name, *card.facts.pipelines, *card.facts.checkpoints)}
    if args.name not in names:
        near = suggest(args.name, names)
        print(
            f"planc models: no card knows {args.name!r}; {f'did you mean {near}?' if near else 'see `planc models`'}",
            file=sys.stderr,
        )
        return USAGE
    card = names[args.name]
    for checkpoint, released in card.facts.checkpoints.items():
        if args.name in (checkpoint, released.pipeline, card.class_name):
            _show(card, checkpoint, released)
    return CLEAN


def _show(card: Card, checkpoint: str, released: Checkpoint) -> None:
    sizes = cards.sizes(card.facts, released.config)
    styles = {entry.pattern: entry.style for entry in card.inventory.tp_plan}
    print(f"{checkpoint}  {card.class_name}  (source: {released.source})")
    print(f"  {'Linear':<56}{'count':>6}{'in':>8}{'out':>8}  class plan")
    for linear in card.inventory.linears:
        count, columns, rows = (
            expression.evaluate(text, sizes) for text in (linear.count, linear.in_features, linear.out_features)
        )
        if count:
            print(f"  {linear.pattern:<56}{count:>6}{columns:>8}{rows:>8}  {styles.get(linear.pattern, '-')}")
