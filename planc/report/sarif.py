"""Diagnostics as SARIF 2.1.0, the format of code scanning: one run, whose rules are every kind of finding."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

from planc import __version__
from planc.diagnostics import Diagnostic, Fault, Span
from planc.report import explanation
from planc.report.text import remarks, visible

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
"""The identifier of the format's own schema."""
BASE = "%SRCROOT%"
"""The customary name of the folder that relative paths start from."""


def render(diagnostics: Iterable[Diagnostic], faults: Sequence[Fault]) -> str:
    """A log in ASCII; `faults` are every kind of finding, each a rule. The same findings give the same bytes."""
    index = {fault.code: place for place, fault in enumerate(faults)}
    run = {
        "tool": {"driver": {"name": "planc", "version": __version__, "rules": [_rule(fault) for fault in faults]}},
        "originalUriBaseIds": {BASE: _text("The folder in which planc ran.", "description")},
        "columnKind": "unicodeCodePoints",
        "results": [_result(item, index[item.code]) for item in diagnostics],
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2)


def _text(text: str, key: str = "message") -> dict[str, Any]:
    # SARIF doubles braces for messages that have arguments; ours have none, and consumers show such text as it is.
    return {key: {"text": text}}


def _rule(fault: Fault) -> dict[str, Any]:
    parts = explanation.sections(fault)
    return {
        "id": fault.code,
        "name": "".join(word.capitalize() for word in fault.name.split("-")),
        **_text(f"{explanation.summary(fault)}.", "shortDescription"),
        **_text(parts["What it does"], "fullDescription"),
        "help": {"text": explanation.text(fault), "markdown": explanation.body(fault)},
        "defaultConfiguration": {"level": fault.severity.value},
    }


def _result(item: Diagnostic, rule_index: int) -> dict[str, Any]:
    result = {
        "ruleId": item.code,
        "ruleIndex": rule_index,
        "level": item.severity.value,
        **_text("\n".join(map(visible, (item.message, *remarks(item, has_places=False))))),
        "locations": [_location(item.span)],
    }
    if item.related:
        result["relatedLocations"] = [
            {"id": place, **_location(other.span), **_text(visible(other.message))}
            for place, other in enumerate(item.related)
        ]
    return result


def _location(span: Span) -> dict[str, Any]:
    region = {
        "startLine": span.line,
        "startColumn": span.column,
        "endLine": span.end_line,
        "endColumn": span.end_column,
    }
    return {"physicalLocation": {"artifactLocation": _artifact(span.path), "region": region}}


def _artifact(path: str) -> dict[str, Any]:
    pure = PurePath(path)
    if pure.is_absolute():
        return {"uri": pure.as_uri()}
    # A colon in the first part would read as the URI's scheme; quote() escapes it everywhere.
    return {"uri": quote(os.fsencode(pure.as_posix() if path else path)), "uriBaseId": BASE}
