"""Reads a card's Linear inventory from diffusers on the meta device, as expressions over the config.

The class is built with the card's configs and with every number of the tiny config moved in turn; each count and
width is then the simplest combination of the card's sizes that gives what was seen in all of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

from planc.catalog import card
from planc.catalog.expression import Number
from planc.verify import diffusers_api

_COEFFICIENTS = (1, 2, 3, 4, 5, 6, 8, 9, -1)


@dataclass(slots=True)
class _Seen:
    """What one build of the class showed: sizes by name, and by pattern what stands there."""

    sizes: dict[str, Number]
    linears: dict[str, list[Any]] = field(default_factory=dict)
    module_lists: dict[str, int] = field(default_factory=dict)


def generate(class_name: str) -> dict[str, Any]:
    """The inventory of `class_name` as plain data.

    Raises:
        ValueError: a count or width is no combination of the card's sizes: the card lacks a symbol.
    """
    facts = card.load_facts(class_name)
    model_class = diffusers_api.transformer_class(class_name)
    seen = [_look(model_class, facts, config) for config in _configs(facts)]
    plan = diffusers_api.tp_plan(model_class)
    return {
        "linears": [_linear(pattern, seen) for pattern in _in_order(seen)],
        "module_lists": {
            path: _fit(f"the length of {path}", [(look.sizes, look.module_lists.get(path, 0)) for look in seen])
            for path in dict.fromkeys(path for look in seen for path in look.module_lists)
        },
        "tp_plan": [
            {"pattern": pattern, "style": style, "blocks": blocks} for pattern, (style, blocks) in plan.items()
        ],
        "cp_plan": diffusers_api.cp_plan(model_class),
        "repeated_blocks": list(diffusers_api.repeated_blocks(model_class)),
    }


def dump(data: dict[str, Any]) -> str:
    """The text of an inventory file: a line for each Linear."""

    def rows(items: list[Any]) -> str:
        return "[\n" + ",\n".join(f"    {json.dumps(item)}" for item in items) + "\n  ]" if items else "[]"

    parts = [f'  "{key}": {rows(item) if isinstance(item, list) else json.dumps(item)}' for key, item in data.items()]
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _configs(facts: card.Facts) -> Iterator[dict[str, Any]]:
    """The card's configs, and the tiny one with each number and flag moved in turn."""
    tiny = dict(facts.tiny.config)
    yield tiny
    for checkpoint in facts.checkpoints.values():
        yield dict(checkpoint.config)
    for key, item in tiny.items():
        if isinstance(item, bool):
            yield {**tiny, key: not item}
        elif isinstance(item, int):
            yield {**tiny, key: item + 2}
        elif isinstance(item, float) and item == int(item):
            yield {**tiny, key: item + 1}
        elif isinstance(item, list | tuple):
            for index, part in enumerate(item):
                if isinstance(part, int):
                    yield {**tiny, key: [*item[:index], part + 2, *item[index + 1 :]]}


def _look(model_class: Any, facts: card.Facts, config: Mapping[str, Any]) -> _Seen:
    import torch

    with torch.device("meta"):
        model = model_class(**config)
    modules = dict(model.named_modules())
    seen = _Seen(card.sizes(facts, config))
    for path, module in modules.items():
        pattern = _pattern(path, modules)
        if isinstance(module, torch.nn.ModuleList):
            seen.module_lists[pattern] = len(module)
        if isinstance(module, torch.nn.Linear):
            seen.linears.setdefault(pattern, []).append(module)
    return seen


def _pattern(path: str, modules: Mapping[str, Any]) -> str:
    """The path with `*` for every index in a list of equal blocks."""
    import torch

    steps = path.split(".")
    for position, step in enumerate(steps):
        parent = modules.get(".".join(path.split(".")[:position]))
        if step.isdigit() and isinstance(parent, torch.nn.ModuleList) and len({type(item) for item in parent}) == 1:
            steps[position] = "*"
    return ".".join(steps)


def _in_order(seen: list[_Seen]) -> list[str]:
    """Every pattern; a class's optional Linears stand where they stood when present."""
    longest = max(seen, key=lambda look: len(look.linears))
    return list(dict.fromkeys([*longest.linears, *(pattern for look in seen for pattern in look.linears)]))


def _linear(pattern: str, seen: list[_Seen]) -> dict[str, Any]:
    present = [(look.sizes, look.linears[pattern][0]) for look in seen if pattern in look.linears]
    data: dict[str, Any] = {
        "pattern": pattern,
        "count": _fit(f"the count of {pattern}", [(look.sizes, len(look.linears.get(pattern, ()))) for look in seen]),
        "in_features": _fit(pattern, [(sizes, linear.in_features) for sizes, linear in present]),
        "out_features": _fit(pattern, [(sizes, linear.out_features) for sizes, linear in present]),
        "bias": _fit(f"the bias of {pattern}", [(sizes, int(linear.bias is not None)) for sizes, linear in present]),
    }
    for position, key in enumerate(("col_blocks", "row_blocks")):
        blocks = [(sizes, diffusers_api.packed_blocks(linear)[position]) for sizes, linear in present]
        if blocks[0][1] is not None:
            data[key] = [
                _fit(f"{key} of {pattern}", [(sizes, block[index]) for sizes, block in blocks if block is not None])
                for index in range(len(blocks[0][1]))
            ]
    return data


def _fit(what: str, samples: list[tuple[dict[str, Number], int]]) -> str:
    """The simplest expression that gives every sample's value: a multiple of a size, a number, a sum of two multiples."""
    names = [*reversed(samples[0][0]), ""]
    terms = [(name, factor) for name in names for factor in _COEFFICIENTS]
    constants = [("", value) for value in {value for _, value in samples}]
    for picked in (*combinations(terms, 1), *combinations(constants, 1), *combinations(terms, 2)):
        if len({name for name, _ in picked}) == len(picked) and all(
            sum(sizes.get(name, 1) * factor if name else factor for name, factor in picked) == value
            for sizes, value in samples
        ):
            return " + ".join(_term(name, factor) for name, factor in picked).replace("+ -", "- ")
    seen = sorted({value for _, value in samples})
    raise ValueError(f"{what}: {seen} is no combination of the card's sizes {', '.join(filter(None, names))}")


def _term(name: str, factor: int) -> str:
    if not name:
        return str(factor)
    return name if factor == 1 else f"{factor} * {name}"
