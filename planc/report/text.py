"""Diagnostics as text: the message, the place, an excerpt with a caret, and what to write instead."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TextIO

from planc.diagnostics import Diagnostic, Severity, Span

_COLOURS = {Severity.ERROR: "1;31", Severity.WARNING: "1;33", Severity.NOTE: "1;36"}
_FRAME = "34"
_WIDTH = 120
_LINE_BREAK = re.compile("\r\n|[\n\r]")
"""What YAML counts as the end of a line."""

Paint = Callable[[str, str], str]


def wants_colour(stream: TextIO) -> bool:
    """Whether `stream` is a terminal whose user did not ask for plain text (NO_COLOR, TERM=dumb)."""
    return stream.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"


def render(diagnostics: Iterable[Diagnostic], texts: Mapping[str, str], *, colour: bool) -> str:
    """All diagnostics, a blank line between them; `texts` maps a path to its file's text."""
    paint = _paint if colour else _plain
    rows = {path: _LINE_BREAK.split(text) for path, text in texts.items()}
    return "\n\n".join("\n".join(_lines(item, rows.get(item.span.path, []), paint)) for item in diagnostics)


def summary(diagnostics: Iterable[Diagnostic]) -> str:
    """How many of each kind, such as `2 errors, 1 warning`."""
    kinds = [item.severity for item in diagnostics]
    counts = [(kinds.count(kind), kind.value) for kind in Severity if kind in kinds]
    return ", ".join(f"{count} {kind}{'' if count == 1 else 's'}" for count, kind in counts)


def _paint(text: str, colour: str) -> str:
    return f"\x1b[{colour}m{text}\x1b[0m"


def _plain(text: str, colour: str) -> str:
    del colour
    return text


def _lines(item: Diagnostic, rows: Sequence[str], paint: Paint) -> Iterator[str]:
    colour = _COLOURS[item.severity]
    yield f"{paint(f'{item.severity.value}[{item.code}]', colour)} {item.name}: {visible(item.message)}"
    has_excerpt = 0 < item.span.line <= len(rows)
    margin = " " * (len(str(item.span.line)) if has_excerpt else 2)
    yield f"{margin}{paint('-->', _FRAME)} {visible(str(item.span))}"
    if has_excerpt:
        row, caret = _excerpt(rows[item.span.line - 1], item.span)
        label = f" {visible(item.label)}" if item.label else ""
        yield f"{margin} {paint('|', _FRAME)}"
        yield f"{paint(f'{item.span.line} |', _FRAME)} {row}"
        yield f"{margin} {paint('|', _FRAME)} {paint(caret + label, colour)}"
    for remark in remarks(item):
        yield f"{margin} {paint('=', _FRAME)} {visible(remark)}"


def remarks(item: Diagnostic, *, has_places: bool = True) -> Iterator[str]:
    """What is said after the message: notes, other places where `has_places`, and the hint."""
    yield from (f"note: {note}" for note in item.notes)
    if has_places:
        yield from (f"see {other.span}: {other.message}" for other in item.related)
    if item.hint:
        yield f"help: {item.hint}"


def _excerpt(row: str, span: Span) -> tuple[str, str]:
    """The line cut to the terminal's width, and carets under the span."""
    start = span.column - 1
    end = span.end_column - 1 if span.end_line == span.line else len(row)
    shift = max(0, start - _WIDTH // 2) if len(row) > _WIDTH else 0
    cut = row[shift : shift + _WIDTH]
    head = "…" if shift else ""
    tail = "…" if len(row) > shift + _WIDTH else ""
    before = _cells(head + row[shift:start])
    width = _cells(row[start : min(end, shift + _WIDTH)])
    return head + visible(cut) + tail, " " * before + "^" * max(1, width)


def _cells(text: str) -> int:
    """Columns that `text` takes on a terminal, as `visible` shows it."""
    shown = visible(text)
    return sum(
        0 if unicodedata.category(char) in ("Mn", "Me") else 2 if unicodedata.east_asian_width(char) in "WF" else 1
        for char in shown
    )


def visible(text: str) -> str:
    """The text with every control character shown, so that a plan cannot drive the terminal."""
    return "".join(char if char.isprintable() else " " if char == "\t" else repr(char)[1:-1] for char in text)
