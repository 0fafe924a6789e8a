"""Which Linears a plan's pattern means, and how a style cuts them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from planc.catalog import expression
from planc.catalog.card import Card, Inventory, Linear, PlanEntry
from planc.catalog.expression import Number

COLWISE = frozenset({"colwise", "packed_colwise"})
"""Styles that cut the output features (dim 0 of the weight)."""
PACKED = frozenset({"packed_colwise", "packed_rowwise"})
"""Styles that cut each fused block on its own."""
ATTRIBUTE = {"packed_colwise": "_tp_packed_col_blocks", "packed_rowwise": "_tp_packed_row_blocks"}
"""The attribute of a Linear that says its blocks. diffusers 0.42.1, hooks/tensor_parallel.py."""


@dataclass(frozen=True, slots=True)
class Match:
    """A place in the structure that a pattern names."""

    linear: Linear
    is_one: bool
    """Whether an index picks a single block."""


_INDEX = re.compile(r"0|[1-9][0-9]{0,5}")
"""An index as a ModuleList names its children."""


def is_index(step: str) -> bool:
    """Whether a step of a pattern is an index into a ModuleList."""
    return _INDEX.fullmatch(step) is not None


def _same(written: str, known: str) -> bool:
    return written == known or (known == "*" and is_index(written))


@dataclass(frozen=True, slots=True)
class _Known:
    """What was looked up in one inventory: the same patterns come back in every rule and every target."""

    inventory: Inventory
    """Kept alive, so that no other takes over its id."""
    linears: dict[str, Match | None] = field(default_factory=dict)
    lists: dict[str, str | None] = field(default_factory=dict)
    modules: dict[str, bool] = field(default_factory=dict)
    indices: dict[str, tuple[tuple[str, int, str], ...]] = field(default_factory=dict)


_KNOWN: dict[int, _Known] = {}


def _known(inventory: Inventory) -> _Known:
    known = _KNOWN.get(id(inventory))
    if known is None:
        known = _KNOWN[id(inventory)] = _Known(inventory)
    return known


def match(inventory: Inventory, pattern: str) -> Match | None:
    """The Linears that `pattern` names; None where it names none. Indices are not held against lengths."""
    seen = _known(inventory).linears
    if pattern not in seen:
        seen[pattern] = _match(inventory, pattern)
    return seen[pattern]


def _match(inventory: Inventory, pattern: str) -> Match | None:
    for linear in inventory.linears:
        if fits(pattern, linear.pattern):
            steps = zip(pattern.split("."), linear.pattern.split("."), strict=True)
            return Match(linear, is_one=any(is_index(step) and place == "*" for step, place in steps))
    return None


def fits(pattern: str, known: str) -> bool:
    """Whether a pattern names the place `known`, whose `*` stands for any index."""
    steps, places = pattern.split("."), known.split(".")
    return len(steps) == len(places) and all(map(_same, steps, places))


def module_list(inventory: Inventory, path: str) -> str | None:
    """The length of the `nn.ModuleList` at `path`, over the config; None where there is none."""
    seen = _known(inventory).lists
    if path not in seen:
        lengths = (length for known, length in inventory.module_lists.items() if fits(path, known))
        seen[path] = next(lengths, None)
    return seen[path]


def has_module(inventory: Inventory, path: str) -> bool:
    """Whether the inventory shows a module at `path`: one that is a Linear or holds one. Others it does not show."""
    seen = _known(inventory).modules
    if path not in seen:
        depth = path.count(".") + 1
        heads = (".".join(linear.pattern.split(".")[:depth]) for linear in inventory.linears)
        seen[path] = any(fits(path, head) for head in heads)
    return seen[path]


def indices(inventory: Inventory, pattern: str) -> tuple[tuple[str, int, str], ...]:
    """Each index in `pattern` into a list of equal blocks: the list's path, the index, the list's length."""
    seen = _known(inventory).indices
    if pattern not in seen:
        steps = pattern.split(".")
        paths = [".".join(steps[:position]) for position in range(len(steps))]
        found = [(path, step, module_list(inventory, path)) for path, step in zip(paths, steps, strict=True)]
        seen[pattern] = tuple(
            (path, int(step), length) for path, step, length in found if is_index(step) and length is not None
        )
    return seen[pattern]


def width(entry: PlanEntry, linear: Linear, sizes: Mapping[str, Number]) -> int:
    """Size of the dim that the style cuts."""
    text = linear.out_features if entry.style in COLWISE else linear.in_features
    return expression.evaluate(text, sizes)


def proportions(entry: PlanEntry, linear: Linear, sizes: Mapping[str, Number]) -> tuple[int, ...] | None:
    """The blocks that are cut each on its own; None where a packed style has none."""
    if entry.style not in PACKED:
        return (1,)
    if entry.blocks is not None:
        return entry.blocks
    texts = linear.col_blocks if entry.style in COLWISE else linear.row_blocks
    return None if texts is None else tuple(expression.evaluate(text, sizes) for text in texts)


def block_sizes(entry: PlanEntry, linear: Linear, sizes: Mapping[str, Number]) -> tuple[int, ...] | None:
    """The sizes of the blocks, which add up to the cut dim; None where they do not fit it."""
    parts = proportions(entry, linear, sizes)
    total = width(entry, linear, sizes)
    if parts is None or total % sum(parts):
        return None
    return tuple(total // sum(parts) * part for part in parts)


def count(found: Match, sizes: Mapping[str, Number]) -> int:
    """How many Linears a pattern names."""
    many = expression.evaluate(found.linear.count, sizes)
    return min(many, 1) if found.is_one else many


def _at(pattern: str, index: int) -> str:
    return pattern.replace("*", str(index))


def elements(card: Card, entries: tuple[PlanEntry, ...], sizes: Mapping[str, Number]) -> int:
    """Elements of the tensors that the entries cut: weights, and the bias of a Linear cut along its output."""
    sizes_of: dict[str, int] = {}
    named: dict[str, set[str]] = {}
    for entry in entries:
        found = match(card.inventory, entry.pattern)
        if found is None:
            continue
        linear = found.linear
        rows = expression.evaluate(linear.out_features, sizes)
        columns = expression.evaluate(linear.in_features, sizes)
        bias = rows * expression.evaluate(linear.bias, sizes) if entry.style in COLWISE else 0
        sizes_of[linear.pattern] = rows * columns + bias
        places = named.setdefault(linear.pattern, set())
        if found.is_one:
            places.add(entry.pattern)
        else:
            many = expression.evaluate(linear.count, sizes)
            places.update(_at(linear.pattern, index) for index in range(many))
    return sum(sizes_of[pattern] * len(places) for pattern, places in named.items())
