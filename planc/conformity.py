"""Whether a tree of values conforms to a JSON Schema: yes or no, and nothing of why.

Almost every plan conforms. To know that takes jsonschema's import and a walk that gathers errors a few times as long as
all else that is done with a plan, so `shape.py` asks here first, and jsonschema only for what is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

Test = Callable[[Any], bool]
"""Takes a scalar, a tuple of `Located` or a dict to `Located`."""

_KINDS: Mapping[str, Test] = {
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, tuple),
}
"""Unlike JSON Schema, as in `shape.py`, this takes 8.0 for no whole number."""
_LIMITS: Mapping[str, tuple[Test, Callable[[Any, Any], bool]]] = {
    "minimum": (_KINDS["number"], lambda value, limit: value >= limit),
    "maximum": (_KINDS["number"], lambda value, limit: value <= limit),
    "minLength": (_KINDS["string"], lambda value, limit: len(value) >= limit),
    "minItems": (_KINDS["array"], lambda value, limit: len(value) >= limit),
    "minProperties": (_KINDS["object"], lambda value, limit: len(value) >= limit),
    "required": (_KINDS["object"], lambda value, keys: all(key in value for key in keys)),
    "pattern": (_KINDS["string"], lambda value, pattern: re.search(pattern, value) is not None),
}
"""Each keyword: what it speaks of, and whether such a value satisfies it."""
_SILENT = frozenset({"$schema", "$defs", "title", "description", "default", "examples", "then"})
"""Keywords that refuse nothing by themselves."""


def compiled(schema: Mapping[str, Any]) -> Test:
    """The test whether a value conforms to `schema`, made once.

    Raises:
        KeyError: the schema uses a keyword that is not known here.
    """
    return _Compiler(schema.get("$defs", {})).test(schema)


class _Compiler:
    """Turns schemas into functions; definitions may refer to each other."""

    def __init__(self, definitions: Mapping[str, Any]) -> None:
        self.definitions = definitions
        self.done: dict[str, Test] = {}

    def test(self, schema: Mapping[str, Any]) -> Test:
        """The test of one schema."""
        has_both = "properties" in schema and "additionalProperties" in schema
        tests = [
            self.keyword(key, schema)
            for key in schema
            if key not in _SILENT and not (has_both and key == "additionalProperties")
        ]
        if len(tests) == 1:
            return tests[0]
        return lambda value: all(test(value) for test in tests)

    def keyword(self, key: str, schema: Mapping[str, Any]) -> Test:
        """The test of one keyword of a schema."""
        said = schema[key]
        if key in _LIMITS:
            speaks_of, satisfies = _LIMITS[key]
            return lambda value: not speaks_of(value) or satisfies(value, said)
        return _KEYWORDS[key](self, said, schema)

    def reference(self, said: str, _: Mapping[str, Any]) -> Test:
        """`$ref` to a definition, which may be under way."""
        name = said.removeprefix("#/$defs/")
        if name not in self.done:
            self.done[name] = lambda value: self.done[name](value)
            self.done[name] = self.test(self.definitions[name])
        return self.done[name]

    def kind(self, said: str | list[str], _: Mapping[str, Any]) -> Test:
        """`type`."""
        kinds = [_KINDS[name] for name in ([said] if isinstance(said, str) else said)]
        return kinds[0] if len(kinds) == 1 else lambda value: any(kind(value) for kind in kinds)

    def choice(self, said: list[Any], _: Mapping[str, Any]) -> Test:
        """`enum` of scalars, where true is not 1."""
        known = {(isinstance(item, bool), item) for item in said}
        return lambda value: not isinstance(value, dict | tuple) and (isinstance(value, bool), value) in known

    def members(self, _: Any, schema: Mapping[str, Any]) -> Test:
        """`properties` and `additionalProperties`, which only together say what a key may hold."""
        known = {key: self.test(item) for key, item in schema.get("properties", {}).items()}
        rest = schema.get("additionalProperties", {})
        other: Test = (lambda _: False) if rest is False else self.test(rest)
        return lambda value: (
            not isinstance(value, dict) or all(known.get(key, other)(item.value) for key, item in value.items())
        )

    def names(self, said: Mapping[str, Any], _: Mapping[str, Any]) -> Test:
        """`propertyNames`."""
        test = self.test(said)
        return lambda value: not isinstance(value, dict) or all(map(test, value))

    def items(self, said: Mapping[str, Any], _: Mapping[str, Any]) -> Test:
        """`items`."""
        test = self.test(said)
        return lambda value: not isinstance(value, tuple) or all(test(item.value) for item in value)

    def either(self, said: list[Mapping[str, Any]], _: Mapping[str, Any]) -> Test:
        """`anyOf`."""
        tests = [self.test(item) for item in said]
        return lambda value: any(test(value) for test in tests)

    def opposite(self, said: Mapping[str, Any], _: Mapping[str, Any]) -> Test:
        """`not`."""
        test = self.test(said)
        return lambda value: not test(value)

    def condition(self, said: Mapping[str, Any], schema: Mapping[str, Any]) -> Test:
        """`if` and `then`."""
        condition, consequence = self.test(said), self.test(schema["then"])
        return lambda value: not condition(value) or consequence(value)


_KEYWORDS: Mapping[str, Callable[[_Compiler, Any, Mapping[str, Any]], Test]] = {
    "$ref": _Compiler.reference,
    "type": _Compiler.kind,
    "enum": _Compiler.choice,
    "properties": _Compiler.members,
    "additionalProperties": _Compiler.members,
    "propertyNames": _Compiler.names,
    "items": _Compiler.items,
    "anyOf": _Compiler.either,
    "not": _Compiler.opposite,
    "if": _Compiler.condition,
}
