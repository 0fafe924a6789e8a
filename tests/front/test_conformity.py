"""The quick test of shape says what jsonschema says, keyword by keyword."""

from __future__ import annotations

from typing import Any

import pytest

from planc import conformity, shape
from planc.located import Located

VALUES: list[Any] = [
    None,
    True,
    False,
    0,
    1,
    2,
    -1,
    1.0,
    1.5,
    "",
    "a",
    "ab",
    "1",
    "a\n",
    [],
    [1],
    ["a", None],
    [[1]],
    {},
    {"a": 1},
    {"b": "x"},
    {"a": 1, "b": "x"},
    {"a": {"a": {"a": None}}},
    {"a": {"a": {"b": 1}}},
    {"A": 1},
]
SCHEMAS: list[dict[str, Any]] = [
    {},
    {"description": "d", "default": 1, "title": "t", "examples": ["e"]},
    *({"type": kind} for kind in ("string", "integer", "number", "boolean", "null", "object", "array")),
    {"type": ["integer", "null"]},
    {"enum": [1]},
    {"enum": [True]},
    {"enum": ["a", None, 0]},
    {"type": "integer", "enum": [1, 2]},
    {"minimum": 1},
    {"maximum": 1},
    {"minLength": 1},
    {"minItems": 1},
    {"minProperties": 1},
    {"pattern": "^[a-z]$(?!\\n)"},
    {"required": ["a", "b"]},
    {"items": {"type": "integer"}},
    {"properties": {"a": {"type": "integer"}}},
    {"additionalProperties": False},
    {"additionalProperties": {"type": "integer"}},
    {"properties": {"a": {"type": "integer"}}, "additionalProperties": False},
    {"additionalProperties": {"type": "string"}, "properties": {"a": {}}},
    {"propertyNames": {"pattern": "^[a-z]+$"}},
    {"anyOf": [{"type": "string"}, {"type": "integer", "minimum": 1}]},
    {"not": {"required": ["a"]}},
    {"if": {"required": ["a"]}, "then": {"required": ["b"]}},
    {
        "$ref": "#/$defs/tree",
        "$defs": {
            "tree": {
                "type": ["object", "null"],
                "properties": {"a": {"$ref": "#/$defs/tree"}},
                "additionalProperties": False,
            }
        },
    },
]


@pytest.mark.parametrize("schema", SCHEMAS, ids=str)
def test_each_keyword_means_what_it_means_to_jsonschema(schema: dict[str, Any]) -> None:
    """Every value conforms, or not, exactly where the strict validator says so."""
    validator, test = type(shape.validator())(schema), conformity.compiled(schema)
    for value in VALUES:
        assert test(Located.of(value).value) == validator.is_valid(value), value


def test_the_keywords_are_tried_both_ways() -> None:
    """Every keyword that can refuse something is among the schemas above, and both takes and refuses a value."""
    for schema in SCHEMAS[2:]:
        test = conformity.compiled(schema)
        assert {test(Located.of(value).value) for value in VALUES} == {True, False}, schema


@pytest.mark.parametrize("keyword", ["oneOf", "maxLength", "const", "patternProperties", "else", "format"])
def test_an_unknown_keyword_is_no_silent_yes(keyword: str) -> None:
    """A schema with a keyword that the test does not know is refused when it is read."""
    with pytest.raises(KeyError, match=keyword):
        conformity.compiled({"properties": {"a": {keyword: {}}}})
