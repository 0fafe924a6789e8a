"""Document + JSON Schema → diagnostics: does the plan have the shape of a plan?"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from functools import cache
from typing import TYPE_CHECKING, Any

from planc import conformity, resources
from planc.diagnostics import Diagnostic, Findings, Span
from planc.faults import BAD_NAME, MISSING_KEY, OUT_OF_RANGE, UNKNOWN_KEY, WRONG_TYPE, WRONG_VALUE
from planc.located import Located, holds_mappings
from planc.source import Document
from planc.spec import SYNONYMS

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import ValidationError

_KINDS = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "null": "null",
    "object": "a mapping",
    "array": "a list",
}
_LEAST = {
    "minLength": "must not be empty",
    "minItems": "needs at least one element",
    "minProperties": "needs at least one key",
}


@cache
def schema_of_plans() -> dict[str, Any]:
    """The schema of plan files."""
    found: dict[str, Any] = json.loads(resources.text("schemas", "plan.schema.json"))
    return found


@cache
def conforms() -> conformity.Test:
    """The test whether a plan has the shape of a plan; it agrees with `validator`."""
    return conformity.compiled(schema_of_plans())


@cache
def validator() -> Draft202012Validator:
    """The validator of plan files; unlike JSON Schema it takes 8.0 for no whole number."""
    from jsonschema import Draft202012Validator
    from jsonschema.validators import extend

    checker = Draft202012Validator.TYPE_CHECKER.redefine(
        "integer", lambda _, value: isinstance(value, int) and not isinstance(value, bool)
    ).redefine("number", lambda _, value: isinstance(value, int | float) and not isinstance(value, bool))
    strict = extend(Draft202012Validator, type_checker=checker)  # type: ignore[no-untyped-call]  # its stub lacks types
    found: Draft202012Validator = strict(schema_of_plans())
    return found


def suggest(word: str, choices: Iterable[str]) -> str | None:
    """The nearest of `choices`, or None."""
    found = get_close_matches(word, list(choices), n=1, cutoff=0.7)
    return found[0] if found else None


def check(document: Document, findings: Findings) -> None:
    """Report everything in which `document` differs from the plan format."""
    if conforms()(document.root.value):
        return
    for error in validator().iter_errors(document.root.plain):
        findings.add(*_translate(error, document.root))


def _translate(error: ValidationError, root: Located) -> Iterator[Diagnostic]:
    node, where = root.find(error.absolute_path), named(error.absolute_path)
    schema: Any = error.schema
    value: Any = error.validator_value
    match error.validator:
        case "additionalProperties":
            known = list(schema["properties"])
            for key in node.value:
                if key not in known:
                    yield _unknown(key, node.value[key].anchor, known, where)
        case "required":
            for key in value:
                if key not in node.value:
                    yield missing(node, key, where)
        case "pattern" if isinstance(node.value, dict):
            name = str(error.instance)
            yield bad_name(name, node.value[name].anchor)
        case "pattern":
            example = schema["examples"][0]
            yield WRONG_VALUE.at(
                node.span, f"{where} is `{error.instance}`, which is no such name", hint=f"write it like `{example}`"
            )
        case "anyOf":
            yield from _any_of(error, root, node, where)
        case "enum" if "type" in schema and not _is_of(error.instance, schema):
            return
        case "type" | "enum":
            yield _mismatch([schema], node, where)
        case "minimum":
            yield OUT_OF_RANGE.at(
                node.span,
                f"{where} is {error.instance}, and must be at least {value}",
                hint=f"write {value} or more",
            )
        case "maximum":
            message = f"{where} is {error.instance}, and must be at most {value}"
            yield OUT_OF_RANGE.at(node.span, message, hint=f"write {value} or less")
        case "minLength" | "minItems" | "minProperties":
            yield OUT_OF_RANGE.at(node.anchor, f"{where} {_LEAST[str(error.validator)]}")
        case _:
            for part in error.context or ():
                yield from _translate(part, root)


def _any_of(error: ValidationError, root: Located, node: Located, where: str) -> Iterator[Diagnostic]:
    """The faults inside the member that the value was meant for, else a list of what it could be."""
    arms: Any = error.validator_value
    meant = [index for index, arm in enumerate(arms) if _is_meant(arm, arms, node)]
    inner = [part for part in error.context or () if meant and part.schema_path[0] == meant[0]]
    if inner and not any(not part.path and part.validator in ("type", "enum") for part in inner):
        for part in inner:
            yield from _translate(part, root)
    else:
        yield _mismatch([_resolve(arm) for arm in arms], node, where)


def _is_meant(arm: dict[str, Any], arms: list[dict[str, Any]], node: Located) -> bool:
    """Whether the value looks like this member of a union, as `located.build` chooses it."""
    if not isinstance(node.value, dict):
        return "enum" not in arm and _is_of(node.plain, arm)
    if "object" not in _kinds(arm):
        return False
    records = [other for other in arms if "properties" in _resolve(other)]
    has_both = bool(records) and any("object" in _kinds(other) for other in arms if other not in records)
    return not has_both or (arm in records) != holds_mappings(node)


def _is_of(value: Any, schema: dict[str, Any]) -> bool:
    return any(validator().is_type(value, kind) for kind in _kinds(schema))


def _resolve(schema: dict[str, Any]) -> dict[str, Any]:
    if "$ref" in schema:
        whole: Any = validator().schema
        found: dict[str, Any] = whole["$defs"][schema["$ref"].rpartition("/")[2]]
        return found
    return schema


def _kinds(schema: dict[str, Any]) -> list[str]:
    kind = _resolve(schema).get("type", [])
    return kind if isinstance(kind, list) else [kind]


def _mismatch(schemas: list[dict[str, Any]], node: Located, where: str) -> Diagnostic:
    values = [value for schema in schemas for value in schema.get("enum", ()) if value is not None]
    kinds = [kind for schema in schemas if "enum" not in schema for kind in _kinds(schema) if kind != "null"]
    expected = [f"`{value}`" for value in values] + [_KINDS[kind] for kind in dict.fromkeys(kinds)]
    written = node.plain
    span = node.span if not isinstance(node.value, dict | tuple) else node.anchor
    near = None
    if isinstance(written, str):
        meant = SYNONYMS.get(written.lower())
        words = [value for value in values if isinstance(value, str)]
        near = meant if meant in words else suggest(written.lower(), words)
    hint = f"did you mean `{near}`?" if near else None
    if isinstance(written, str) and any(isinstance(value, str) for value in values):
        return WRONG_VALUE.at(span, f"{where} is `{written}`, and must be {_either(expected)}", hint=hint)
    return WRONG_TYPE.at(span, f"{where} is {_describe(written)}, and must be {_either(expected)}", hint=hint)


def _describe(value: Any) -> str:
    if value is None:
        return "empty"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, str):
        return f'the text "{value if len(value) <= 40 else value[:37] + "..."}"'
    if isinstance(value, dict):
        return "a mapping"
    return "a list" if isinstance(value, list) else f"`{value}`"


def _either(choices: list[str]) -> str:
    return choices[0] if len(choices) == 1 else f"{', '.join(choices[:-1])} or {choices[-1]}"


def named(path: Iterable[str | int]) -> str:
    """What to call the value at `path` in a message."""
    steps = [f"[{step}]" if isinstance(step, int) else step for step in path]
    return f"`{'.'.join(steps).replace('.[', '[')}`" if steps else "the plan"


def _unknown(key: str, span: Span, known: list[str], where: str) -> Diagnostic:
    near = suggest(key, known)
    hint = f"did you mean `{near}`?" if near else f"known here: {', '.join(known)}"
    place = "a plan" if where == "the plan" else where
    return UNKNOWN_KEY.at(span, f"{place} has no key `{key}`", label="unknown key", hint=hint)


def missing(node: Located, key: str, where: str) -> Diagnostic:
    """The finding that `node`, called `where`, lacks `key`."""
    return MISSING_KEY.at(node.anchor, f"{where} needs the key `{key}`", hint=f"add `{key}:`")


def bad_name(name: str, span: Span) -> Diagnostic:
    """The finding that a plan or target name cannot name a file."""
    return BAD_NAME.at(
        span,
        f"`{name}` cannot name a file",
        hint="use small letters, digits and dashes, such as `tp8-compiled`",
    )
