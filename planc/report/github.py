"""Diagnostics as workflow commands of GitHub Actions, which shows them beside the lines of a pull request."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from planc.diagnostics import Diagnostic, Severity, Span
from planc.report.text import remarks, visible

_COMMANDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}
_DATA = {"%": "%25", "\r": "%0D", "\n": "%0A"}
"""What GitHub's own toolkit escapes in a message."""
_PROPERTY = {**_DATA, ":": "%3A", ",": "%2C"}
"""What it escapes in a property, where colon and comma part one from the next."""


def render(diagnostics: Iterable[Diagnostic]) -> str:
    """A command a line; notes and the hint are further lines of its message."""
    return "\n".join(map(_command, diagnostics))


def _command(item: Diagnostic) -> str:
    said = {**dict(_place(item.span)), "title": f"{item.code} {item.name}"}
    properties = ",".join(f"{key}={_escaped(str(value), _PROPERTY)}" for key, value in said.items())
    message = "\n".join(map(visible, (item.message, *remarks(item))))
    return f"::{_COMMANDS[item.severity]} {properties}::{_escaped(message, _DATA)}"


def _place(span: Span) -> Iterator[tuple[str, str | int]]:
    if not span.path:
        return  # the runner takes a line for a mistake where there is no file
    yield from (("file", span.path), ("line", span.line))
    if span.end_line == span.line:
        # The runner drops the place of a command that has columns and several lines.
        yield from (("col", span.column), ("endLine", span.end_line), ("endColumn", span.end_column))
    else:
        yield "endLine", span.end_line


def _escaped(text: str, table: dict[str, str]) -> str:
    """The text as GitHub reads it back; what would drive the terminal of a log is shown instead of sent."""
    return "".join(table.get(char) or visible(char) for char in text)
