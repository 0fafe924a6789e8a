"""A Program as text: what each target means, and the line that gave each value."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from planc.diagnostics import Span
from planc.ir import Program, Record, ShardEntry, SplitEntry, TargetProgram

_COLUMN = 64


def render(program: Program, target: str | None) -> str:
    """Every target, or the one called `target`: a value a line, and where it was said or that it is a default."""
    lines: list[str] = []
    for item in program.targets:
        if target is None or item.name == target:
            lines += [f"{program.name}.{item.name}:", *_fields(item, 1), ""]
    return "\n".join(lines)


def _fields(record: Any, depth: int) -> Iterator[str]:
    origins = getattr(record, "origins", {})
    for item in fields(record):
        value = getattr(record, item.name)
        if item.name == "origins" or (item.name == "name" and isinstance(record, TargetProgram)):
            continue
        if hasattr(value, "__dataclass_fields__"):
            yield f"{'  ' * depth}{item.name}:"
            yield from _fields(value, depth + 1)
        elif isinstance(value, tuple) and value and isinstance(value[0], Record | ShardEntry | SplitEntry):
            yield f"{'  ' * depth}{item.name}:"
            for part in value:
                yield from _part(part, depth + 1)
        else:
            yield _line(f"{'  ' * depth}{item.name}: {_shown(value)}", origins.get(item.name), item.name in _SAID)


_SAID = frozenset(
    """
    device mode seed pipeline checkpoint revision variant use_safetensors dtype value height width num_frames text_tokens batch
    scope backend fullgraph dynamic options degree on_host tiling slicing timeout env instance ring_degree ulysses_degree
    convert_to_fp32 rotate_method attention_backend ulysses_anything ring_anything
    """.split()
)
"""Fields that a plan can say: where no line did, they hold a default. The others follow from the model card."""


def _part(part: Any, depth: int) -> Iterator[str]:
    if isinstance(part, ShardEntry):
        style = part.style if part.blocks is None else f"{part.style} {list(part.blocks)}"
        yield _line(f"{'  ' * depth}- {part.pattern}: {style}", part.origin, False)
        return
    if isinstance(part, SplitEntry):
        what = "output" if part.tensor is None else f"output {part.tensor}" if part.split_output else part.tensor
        how = "gather" if part.tensor is None else "split"
        dims = "" if part.expected_dims is None else f" of {part.expected_dims}"
        place = f"{part.module}: " if part.module else ""
        yield _line(f"{'  ' * depth}- {place}{how} {what} along dim {part.dim}{dims}", part.origin, False)
        return
    first, *rest = _fields(part, depth + 1)
    yield "  " * depth + "- " + first.lstrip()
    yield from rest


def _shown(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _line(text: str, origin: Span | None, is_sayable: bool) -> str:
    if origin is not None:
        return f"{text:<{_COLUMN}}  # {origin}"
    return f"{text:<{_COLUMN}}  # default" if is_sayable else text
