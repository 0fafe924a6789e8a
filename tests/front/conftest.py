"""What the front end's tests share: plans with the expected findings marked in their text."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from planc.diagnostics import Diagnostic

Marked = Callable[[str], list[Diagnostic]]

_MARK = re.compile(r"⟦(P\d{3}) |⟧")


def _unmark(text: str) -> tuple[str, list[tuple[str, int, int, int, int]]]:
    """The text without marks, and (code, line, column, end line, end column) of each mark."""
    plain, places, open_marks, last = "", [], list[tuple[str, int, int]](), 0
    for mark in _MARK.finditer(text):
        plain += text[last : mark.start()]
        last = mark.end()
        line, column = plain.count("\n") + 1, len(plain) - (plain.rfind("\n") + 1) + 1
        if mark[1]:
            open_marks.append((mark[1], line, column))
        else:
            places.append((*open_marks.pop(), line, column))
    assert not open_marks, "a mark is not closed"
    return plain + text[last:], sorted(places)


@pytest.fixture
def marked(check: Callable[..., list[Diagnostic]]) -> Marked:
    """Check a plan in which `⟦P301 5⟧` says that P301 is found at the 5, and nothing is found elsewhere."""

    def run(text: str) -> list[Diagnostic]:
        plain, expected = _unmark(text)
        found = check(plain)
        places = [
            (item.code, item.span.line, item.span.column, item.span.end_line, item.span.end_column) for item in found
        ]
        assert sorted(places) == expected, [f"{item.span} {item.code} {item.message}" for item in found]
        return found

    return run
