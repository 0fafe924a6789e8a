"""Diagnostics as json: a list of objects, for editors and other programs."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict

from planc.diagnostics import Diagnostic


def render(diagnostics: Iterable[Diagnostic]) -> str:
    """A json array in ASCII; spans count from 1, their end is exclusive."""
    return json.dumps([_object(item) for item in diagnostics], indent=2)


def _object(item: Diagnostic) -> dict[str, object]:
    return {**asdict(item), "severity": item.severity.value}
