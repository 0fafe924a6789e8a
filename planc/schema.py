"""Records → JSON Schema: what editors complete with and what `shape.py` validates against.

The schema says the shape of a plan; whatever relates two fields is a rule. The documentation is the string
under each field, read from the source text, so that it stands in one place.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
import types
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from planc.located import hints_of, issubclass_safe, key_of
from planc.spec import KeyPattern, Maximum, Minimum, NotEmpty, Pattern, PlanFile, Target

DRAFT = "https://json-schema.org/draft/2020-12/schema"
_SCALARS: dict[Any, dict[str, Any]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    type(None): {"type": "null"},
    Any: {},
}


def plan_schema() -> dict[str, Any]:
    """The JSON Schema of a plan file."""
    return _document(PlanFile, "planc plan", partial_below=Target)


def record_schema(record: type, title: str) -> dict[str, Any]:
    """The JSON Schema of another kind of data file that `record` describes."""
    return _document(record, title, partial_below=None)


def documentation(record: type) -> dict[str, str]:
    """The documentation of each field of `record`: the string under it, base classes first."""
    docs: dict[str, str] = {}
    for base in reversed(record.__mro__[:-1]):
        if not is_dataclass(base) or base.__module__ == "planc.located":
            continue
        body = ast.parse(textwrap.dedent(inspect.getsource(base))).body[0]
        assert isinstance(body, ast.ClassDef)
        for statement, following in zip(body.body, body.body[1:], strict=False):
            if (
                isinstance(statement, ast.AnnAssign)
                and isinstance(statement.target, ast.Name)
                and isinstance(following, ast.Expr)
                and isinstance(following.value, ast.Constant)
            ):
                docs[key_of(statement.target.id)] = " ".join(str(following.value.value).split())
    return docs


def plan_records() -> tuple[type, ...]:
    """The records of the plan format, the file first, each before what it holds."""
    return tuple(_Definitions(partial_below=Target).collect(PlanFile))


def _document(record: type, title: str, *, partial_below: type | None) -> dict[str, Any]:
    definitions = _Definitions(partial_below=partial_below)
    body = definitions.record(record)
    for name in list(definitions.needed):
        definitions.define(name)
    return {
        "$schema": DRAFT,
        "title": title,
        **body,
        "$defs": {name: definitions.done[name] for name in sorted(definitions.done)},
    }


class _Definitions:
    """Collects the `$defs` that a schema refers to.

    Records at and below `partial_below` may leave out required keys: a target takes them from the plan or from
    the target it extends, so only the laid-together target can lack one.
    """

    def __init__(self, *, partial_below: type | None) -> None:
        self.partial_below = partial_below
        self.needed: dict[str, tuple[type, bool]] = {}
        self.done: dict[str, dict[str, Any]] = {}

    def collect(self, record: type) -> list[type]:
        """The records reachable from `record`, in order of first mention."""
        self.record(record)
        for name in list(self.needed):
            self.define(name)
        return list(dict.fromkeys([record, *(kind for kind, _ in self.needed.values())]))

    def refer(self, record: type, partial: bool) -> dict[str, Any]:
        """A reference to the definition of `record`."""
        partial = partial or record is self.partial_below
        name = record.__name__
        if partial and record is not self.partial_below and self._requires(record):
            name = f"Partial{name}"
        self.needed.setdefault(name, (record, partial))
        self.define(name)
        return {"$ref": f"#/$defs/{name}"}

    def _requires(self, record: type) -> bool:
        return any(item.default is MISSING and item.default_factory is MISSING for item in fields(record))

    def define(self, name: str) -> None:
        """Fill in a definition once."""
        if name not in self.done:
            self.done[name] = {}
            record, partial = self.needed[name]
            self.done[name] = self.record(record, partial=partial)

    def record(self, record: type, *, partial: bool = False) -> dict[str, Any]:
        """The schema of one record."""
        hints, docs = hints_of(record), documentation(record)
        properties: dict[str, Any] = {}
        required = []
        for item in fields(record):
            if item.name == "at":
                continue
            key = key_of(item.name)
            is_required = item.default is MISSING and item.default_factory is MISSING
            schema = self.value(hints[item.name], partial=partial)
            if is_required:
                required.append(key)
            else:
                schema = _or_null(schema)
            if item.default is not MISSING and item.default is not None and item.default != ():
                schema = {**schema, "default": item.default}
            properties[key] = {"description": docs[key], **schema}
        body: dict[str, Any] = {
            "description": " ".join((record.__doc__ or "").split()),
            "type": "object",
            "properties": properties,
            "additionalProperties": False,
        }
        if required and not partial:
            body["required"] = required
        if record is self.partial_below:
            body["if"] = {"not": {"required": ["extends"]}}
            body["then"] = {"required": [key for key in required if key in ("device", "mode")]}
        return body

    def value(self, hint: Any, *, partial: bool) -> dict[str, Any]:
        """The schema of one type."""
        origin = get_origin(hint)
        if origin is Annotated:
            inner, *notes = get_args(hint)
            return self.annotated(self.value(inner, partial=partial), notes)
        if origin in (Union, types.UnionType):
            return _any_of([self.value(arm, partial=partial) for arm in get_args(hint)])
        if origin is Literal:
            values = get_args(hint)
            # 1.0 and true equal 1, so numbers need their type said too.
            return {"type": "integer", "enum": list(values)} if type(values[0]) is int else {"enum": list(values)}
        if origin is tuple:
            # The elements of a list replace it whole: nothing is laid under them.
            return {"type": "array", "items": self.value(get_args(hint)[0], partial=False)}
        if issubclass_safe(origin, Mapping):
            return {"type": "object", "additionalProperties": self.value(get_args(hint)[1], partial=partial)}
        if is_dataclass(hint) and isinstance(hint, type):
            return self.refer(hint, partial)
        return dict(_SCALARS[hint])

    def annotated(self, schema: dict[str, Any], notes: list[Any]) -> dict[str, Any]:
        """Add the constraints that an annotation carries."""
        for note in notes:
            if isinstance(note, Minimum):
                schema = {**schema, "minimum": note.value}
            elif isinstance(note, Maximum):
                schema = {**schema, "maximum": note.value}
            elif isinstance(note, NotEmpty):
                key = {"string": "minLength", "array": "minItems", "object": "minProperties"}[schema["type"]]
                schema = {**schema, key: 1}
            elif isinstance(note, Pattern):
                schema = {**schema, "pattern": note.pattern, "examples": [note.example]}
            elif isinstance(note, KeyPattern):
                schema = {**schema, "propertyNames": {"pattern": note.pattern}}
        return schema


def _any_of(arms: list[dict[str, Any]]) -> dict[str, Any]:
    flat: list[dict[str, Any]] = []
    for arm in arms:
        for part in arm["anyOf"] if set(arm) == {"anyOf"} else [arm]:
            if part not in flat:
                flat.append(part)
    if all(set(part) == {"type"} and isinstance(part["type"], str) for part in flat):
        return {"type": [part["type"] for part in flat]}
    return {"anyOf": flat}


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    if not schema:
        return schema
    if "enum" in schema:
        kind = {"type": [schema["type"], "null"]} if "type" in schema else {}
        return {**schema, **kind, "enum": [*schema["enum"], None]}
    if "anyOf" in schema:
        return _any_of([*schema["anyOf"], {"type": "null"}]) | {k: v for k, v in schema.items() if k != "anyOf"}
    if "type" in schema and schema["type"] != "null" and "null" not in schema["type"]:
        kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        return {**schema, "type": [*kinds, "null"]}
    if "$ref" in schema:
        return {"anyOf": [schema, {"type": "null"}]}
    return schema


def dump(schema: dict[str, Any]) -> str:
    """The text of a schema file."""
    import json

    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
