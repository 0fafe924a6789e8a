"""Values → Python text, laid out as ruff formats it. The only place where a value becomes code."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

WIDTH = 88
"""Columns of a line in generated code: the default of ruff and black."""


@dataclass(frozen=True, slots=True)
class Name:
    """A name of the generated module, such as a constant."""

    name: str


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a name with literal arguments."""

    name: str
    arguments: tuple[Any, ...] = ()
    keywords: tuple[tuple[str, Any], ...] = ()


def columns(text: str) -> int:
    """Columns that a text takes, wide characters counted as two, as ruff counts them."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.category(char) in ("Mn", "Me") else 2 if unicodedata.east_asian_width(char) in "WF" else 1
        for char in text
    )


def literal(value: Any, *, indent: int = 0, before: int = 0, is_exploded: bool = False) -> str:
    """The Python text of `value`.

    `indent` is the indentation of the line it starts on, `before` the columns already taken on it behind the
    indentation. Collections go on one line where they fit and `is_exploded` does not ask for a line an element.

    Raises:
        TypeError: the value is none of str, int, float, bool, None, list, tuple, mapping, `Name` and `Call`.
    """
    flat = _flat(value)
    fits = indent + before + columns(flat) + 1 <= WIDTH
    # The comma of a tuple of one is no sign to ruff that it should stay on lines of its own.
    is_free = not is_exploded or (isinstance(value, tuple) and len(value) == 1)
    pad = " " * (indent + 4)
    if isinstance(value, Call) and not fits and (value.arguments or value.keywords):
        arguments = [_flat(item) for item in value.arguments]
        arguments += [f"{key}={_flat(item)}" for key, item in value.keywords]
        return "\n".join([f"{value.name}(", *(f"{pad}{item}," for item in arguments), " " * indent + ")"])
    if not isinstance(value, Mapping | list | tuple) or not value or (fits and is_free):
        return flat
    opening, closing = (
        ("{", "}") if isinstance(value, Mapping) else ("(", ")") if isinstance(value, tuple) else ("[", "]")
    )
    lines = [opening]
    if isinstance(value, Mapping):
        for key, item in value.items():
            head = f"{_flat(key)}: "
            lines.append(f"{pad}{head}{literal(item, indent=indent + 4, before=columns(head))},")
    else:
        lines += [f"{pad}{literal(item, indent=indent + 4)}," for item in value]
    return "\n".join([*lines, " " * indent + closing])


def call(head: str, arguments: Sequence[str], *, indent: int, after: int = 0) -> str:
    """The text of a call whose arguments are Python text: one line where it fits, else a line an argument.

    `after` is what else stands on the line, such as the comma of an argument.
    """
    flat = f"{head}({', '.join(arguments)})"
    if indent + columns(flat) + after <= WIDTH and "\n" not in flat:
        return flat
    pad = " " * (indent + 4)
    return "\n".join([f"{head}(", *(f"{pad}{argument}," for argument in arguments), " " * indent + ")"])


def assignment(target: str, value: Any, *, is_exploded: bool = False) -> str:
    """The text of an assignment at the module's top; text that is too long for the line stands on its own in brackets."""
    text = literal(value, before=len(target) + 3, is_exploded=is_exploded)
    if isinstance(value, str) and len(target) + 3 + columns(text) > WIDTH >= 4 + columns(text):
        return f"{target} = (\n    {text}\n)"
    return f"{target} = {text}"


def _flat(value: Any) -> str:
    if isinstance(value, str):
        return _string(value)
    if value is None or isinstance(value, bool | int):
        return repr(value)
    if isinstance(value, float):
        if value != value or value in (float("inf"), float("-inf")):
            return f'float("{value}")'
        return repr(value).replace("e+", "e")
    if isinstance(value, Name):
        return value.name
    if isinstance(value, Call):
        keywords = (f"{key}={_flat(item)}" for key, item in value.keywords)
        return f"{value.name}({', '.join([*map(_flat, value.arguments), *keywords])})"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_flat(key)}: {_flat(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_flat, value)) + "]"
    if isinstance(value, tuple):
        return "(" + ", ".join(map(_flat, value)) + ("," if len(value) == 1 else "") + ")"
    raise TypeError(f"no literal for {type(value).__name__}")


def _string(value: str) -> str:
    """Double quotes where they cost no more escapes than single ones, as ruff formats strings."""
    text = (
        ascii(value) if any(not char.isprintable() or 0xD800 <= ord(char) < 0xE000 for char in value) else repr(value)
    )
    body = text[1:-1]
    if text[0] == "'" and value.count('"') <= value.count("'"):
        body = body.replace("\\'", "'").replace('"', '\\"')
        return f'"{body}"'
    return text
