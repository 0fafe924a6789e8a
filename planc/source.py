"""YAML text → `Document`: the data, and a span for every key and value.

Reads libyaml's events directly, so that every trap of YAML becomes a diagnostic instead of a silent guess.
Scalars follow the core schema of YAML 1.2; what YAML 1.1 would read otherwise (`off`, `1:30`, `017`) is refused.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from planc.diagnostics import Diagnostic, Fault, Findings, Span
from planc.faults import (
    AMBIGUOUS_SCALAR,
    DUPLICATE_KEY,
    EMPTY_PLAN,
    MAX_BYTES,
    MAX_DEPTH,
    MAX_NODES,
    MERGE_KEY,
    NOT_UTF8,
    SEVERAL_DOCUMENTS,
    SYNTAX,
    TAB,
    TOO_DEEP,
    TOO_LARGE,
    UNREADABLE,
    UNUSABLE_NODE,
)
from planc.located import Located

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
MAX_DIGITS = 4000
"""Digits of the longest whole number; Python refuses to convert much longer ones."""
_NULL = {"", "~", "null", "Null", "NULL"}
_BOOL = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INT = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_LINE_BREAK = re.compile("\r\n|[\n\r]")
_REFUSED_CHARACTER = re.compile(
    "[^\t\n\r\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"
)
"""What YAML does not allow, and the separators U+0085, U+2028 and U+2029, which end a line in YAML 1.1 only."""
_AMBIGUOUS = re.compile(
    r"""(?x)
    (?P<boolean> yes|Yes|YES|no|No|NO|on|On|ON|off|Off|OFF|y|Y|n|N )
    | (?P<sexagesimal> [-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)? )
    | (?P<date> [0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([Tt\ ].*)? )
    | (?P<exponent> [-+]?([0-9]+[eE][-+]?[0-9]+|([0-9]+\.[0-9]*|\.[0-9]+)[eE][0-9]+) | [-+]\.[0-9]+([eE][-+][0-9]+)? )
    | (?P<number> [-+]?(0[0-9_]+|0o[0-7]+|0x[0-9a-fA-F_]+|0b[01_]+|(?=[^_]*_)([0-9][0-9_]*(\.[0-9_]*)?|\.[0-9][0-9_]*)([eE][-+][0-9]+)?) )
    | (?P<infinite> [-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN) )
    """
)
"""What readers of YAML 1.1 and 1.2 take for different values, and what no plan can hold."""


@dataclass(frozen=True, slots=True)
class Document:
    """A file that was read: `path` as the user gave it, its text, and the tree of located values."""

    path: str
    text: str
    root: Located


class _Refused(Exception):  # noqa: N818  # it ends the reading, it is no error of planc
    """Reading stops here: the rest of the file has no meaning."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(diagnostic.message)
        self.diagnostic = diagnostic


def read_text(path: str, findings: Findings) -> str | None:
    """The text of the file at `path`; None, with a finding, where it cannot be read."""
    start = Span(path, 1, 1, 1, 1)
    try:
        with Path(path).open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        hint = "`planc init` writes a first plan" if isinstance(error, FileNotFoundError) else None
        findings.add(UNREADABLE.at(start, f"cannot read {path or 'a file without a name'}: {reason}", hint=hint))
        return None
    if len(data) > MAX_BYTES:
        findings.add(
            TOO_LARGE.at(start, f"the plan has {max(size, len(data)):,} bytes; planc reads at most {MAX_BYTES:,}")
        )
        return None
    try:
        text = data.decode().removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode().removeprefix("\ufeff")
        message = f"byte 0x{data[error.start]:02x} is not UTF-8"
        findings.add(NOT_UTF8.at(_place(path, before), message, hint="save the file as UTF-8"))
        return None
    return text


def _place(path: str, before: str) -> Span:
    """The span of the one character that follows the text `before`."""
    rows = _LINE_BREAK.split(before)
    return Span(path, len(rows), len(rows[-1]) + 1, len(rows), len(rows[-1]) + 2)


def parse(path: str, text: str, findings: Findings) -> Document | None:
    """Parse the text of a plan; None, with a finding, where it has no tree."""
    if (odd := _REFUSED_CHARACTER.search(text)) is not None:
        name = f"U+{ord(odd[0]):04X}"
        message = f"the character {name} is not allowed in a plan"
        hint = f'write it as an escape in double quotes: "\\u{ord(odd[0]):04x}"'
        findings.add(NOT_UTF8.at(_place(path, text[: odd.start()]), message, hint=hint))
        return None
    reader = _Reader(path, text, findings)
    try:
        root = reader.document()
    except _Refused as refused:
        findings.add(refused.diagnostic)
        return None
    except yaml.MarkedYAMLError as error:
        findings.add(_syntax(path, text, error))
        return None
    return Document(path, text, root)


def _syntax(path: str, text: str, error: yaml.MarkedYAMLError) -> Diagnostic:
    mark = error.problem_mark or error.context_mark
    rows = _LINE_BREAK.split(text)
    line, column = (mark.line, mark.column) if mark else (0, 0)
    if line >= len(rows):
        line, column = len(rows) - 1, len(rows[-1])
    span = Span(path, line + 1, column + 1, line + 1, min(column + 2, len(rows[line]) + 1))
    problem = error.problem or "not YAML"
    if "nesting depth" in problem:
        return TOO_DEEP.at(span, f"nested more than {MAX_DEPTH} deep")
    indent = re.match(r"[ \t]*", rows[line])
    if indent is not None and "\t" in indent[0] and column <= indent.end():
        at = indent[0].index("\t") + 1
        tab = Span(path, line + 1, at, line + 1, at + 1)
        return TAB.at(tab, "a tab in the indentation", label="this is a tab", hint="indent with spaces")
    context = f" {error.context}" if error.context else ""
    return SYNTAX.at(span, f"{problem}{context}", hint="check brackets, quotes and indentation above this place")


class _Reader:
    """Builds the tree from the parser's events."""

    def __init__(self, path: str, text: str, findings: Findings) -> None:
        self.path = path
        self.findings = findings
        self.rows = _LINE_BREAK.split(text)
        self.events: Iterator[Any] = iter(yaml.parse(text, Loader=_Loader))
        self.anchors: dict[str, Located | None] = {}
        self.sizes: dict[str, int] = {}
        self.heights: dict[str, int] = {}
        self.deepest = 0
        self.count = 0

    def document(self) -> Located:
        """The one document of the file.

        Raises:
            _Refused: there is none, or more than one.
        """
        next(self.events)
        event = next(self.events)
        if isinstance(event, yaml.StreamEndEvent):
            raise _Refused(
                EMPTY_PLAN.at(Span(self.path, 1, 1, 1, 1), "the plan is empty", hint="`planc init` writes a first plan")
            )
        root = self.node(next(self.events), depth=0)
        next(self.events)
        event = next(self.events)
        if not isinstance(event, yaml.StreamEndEvent):
            raise _Refused(
                SEVERAL_DOCUMENTS.at(
                    self.span(event), "a second document starts here", hint="give each plan its own file"
                )
            )
        if root.value is None:
            raise _Refused(EMPTY_PLAN.at(root.span, "the plan is empty", hint="`planc init` writes a first plan"))
        return root

    def span(self, event: Any) -> Span:
        """The span of an event; of a block collection only its start, as its end mark is the next line."""
        start, end = self.clamped(event.start_mark), self.clamped(event.end_mark)
        return Span(self.path, *start, *end)

    def clamped(self, mark: Any) -> tuple[int, int]:
        """Line and column of a mark, from 1; one behind the last line means the end of the text."""
        if mark.line < len(self.rows):
            return mark.line + 1, mark.column + 1
        return len(self.rows), len(self.rows[-1]) + 1

    def refuse(self, fault: Fault, event: Any, message: str, hint: str | None = None) -> _Refused:
        """A finding after which the tree has no meaning."""
        return _Refused(fault.at(self.span(event), message, hint=hint))

    def refuse_tag(self, event: Any) -> None:
        """A plan holds plain values only.

        Raises:
            _Refused: the event carries a tag.
        """
        if event.tag is not None:
            raise self.refuse(UNUSABLE_NODE, event, f"the tag `{event.tag}` is not allowed", "write the plain value")

    def node(self, event: Any, *, depth: int) -> Located:
        """The value that starts at `event`."""
        self.count += 1
        if self.count > MAX_NODES:
            raise self.refuse(
                TOO_LARGE, event, f"more than {MAX_NODES:,} values, aliases expanded", "write out what you need"
            )
        if depth > MAX_DEPTH:
            raise self.refuse(TOO_DEEP, event, f"nested more than {MAX_DEPTH} deep")
        if isinstance(event, yaml.AliasEvent):
            return self.alias(event, depth)
        self.refuse_tag(event)
        if event.anchor:
            self.anchors[event.anchor] = None
        before, deepest = self.count, self.deepest
        self.deepest = depth
        if isinstance(event, yaml.ScalarEvent):
            located = Located(self.scalar(event), self.span(event))
        elif isinstance(event, yaml.SequenceStartEvent):
            located = self.sequence(event, depth)
        else:
            located = self.mapping(event, depth)
        if event.anchor:
            self.anchors[event.anchor] = located
            self.sizes[event.anchor] = self.count - before + 1
            self.heights[event.anchor] = self.deepest - depth
        self.deepest = max(self.deepest, deepest)
        return located

    def alias(self, event: Any, depth: int) -> Located:
        """The anchored value; it counts as often as it is used."""
        if event.anchor not in self.anchors:
            raise self.refuse(UNUSABLE_NODE, event, f"the alias `*{event.anchor}` has no anchor")
        located = self.anchors[event.anchor]
        if located is None:
            raise self.refuse(TOO_DEEP, event, f"the alias `*{event.anchor}` stands inside its own anchor")
        if depth + self.heights[event.anchor] > MAX_DEPTH:
            raise self.refuse(TOO_DEEP, event, f"nested more than {MAX_DEPTH} deep, aliases expanded")
        self.deepest = max(self.deepest, depth + self.heights[event.anchor])
        self.count += self.sizes[event.anchor]
        if self.count > MAX_NODES:
            raise self.refuse(
                TOO_LARGE, event, f"more than {MAX_NODES:,} values, aliases expanded", "write out what you need"
            )
        return located

    def sequence(self, start: Any, depth: int) -> Located:
        """A list."""
        items = []
        while not isinstance(event := next(self.events), yaml.SequenceEndEvent):
            items.append(self.node(event, depth=depth + 1))
        return Located(tuple(items), self.collection(start, event))

    def mapping(self, start: Any, depth: int) -> Located:
        """A mapping; its keys are their text as written."""
        entries: dict[str, Located] = {}
        while not isinstance(event := next(self.events), yaml.MappingEndEvent):
            if not isinstance(event, yaml.ScalarEvent):
                raise self.refuse(UNUSABLE_NODE, event, "a key must be text", "quote it, or write it on one line")
            self.refuse_tag(event)
            key, key_span = event.value, self.span(event)
            item = self.node(next(self.events), depth=depth + 1)
            if key == "<<" and event.implicit[0]:
                self.findings.add(MERGE_KEY.at(key_span, "merge keys are not allowed", hint="use `extends: <target>`"))
            elif key in entries:
                first = entries[key].anchor
                self.findings.add(
                    DUPLICATE_KEY.at(
                        key_span,
                        f"`{key}` stands twice: here and on line {first.line}",
                        label="again here",
                        hint="keep one of them",
                    )
                )
            else:
                entries[key] = Located(item.value, item.span, key_span)
        return Located(entries, self.collection(start, event))

    def collection(self, start: Any, end: Any) -> Span:
        """From the start to the end of a flow collection; only the start of a block collection."""
        first = self.span(start)
        if not start.flow_style:
            return Span(self.path, first.line, first.column, first.line, first.column)
        last = self.span(end)
        return Span(self.path, first.line, first.column, last.end_line, last.end_column)

    def scalar(self, event: Any) -> Any:
        """A scalar of the core schema; what YAML 1.1 reads otherwise is reported."""
        text: str = event.value
        if not event.implicit[0]:
            return text
        if text in _NULL:
            return None
        if text in _BOOL:
            return _BOOL[text]
        if _INT.fullmatch(text) and len(text) <= MAX_DIGITS:
            return int(text)
        if match := _AMBIGUOUS.fullmatch(text):
            self.findings.add(self.ambiguous(event, match))
            return text
        if not _FLOAT.fullmatch(text):
            return text
        number = float(text)
        if math.isinf(number):
            self.findings.add(AMBIGUOUS_SCALAR.at(self.span(event), "the number is too large for a plan to hold"))
        return number

    def ambiguous(self, event: Any, match: re.Match[str]) -> Diagnostic:
        """Say what the readers disagree on."""
        text = match[0]
        quoted = f'quote the text: "{text}"'
        meant = "true" if text.lower() in ("yes", "on", "y") else "false"
        message, hint = {
            "boolean": (f"is {meant} in YAML 1.1 and text in YAML 1.2", f"write `{meant}`, or {quoted}"),
            "sexagesimal": (
                "is a number of base 60 in YAML 1.1 and text in YAML 1.2",
                f"write a plain number, or {quoted}",
            ),
            "date": ("is a date in YAML 1.1 and text in YAML 1.2", quoted),
            "exponent": (
                "is text in YAML 1.1 and a number in YAML 1.2",
                f"write a dot and a sign, as in 1.0e-4, or {quoted}",
            ),
            "number": ("is not the same number to every YAML reader", f"write it in plain digits, or {quoted}"),
            "infinite": ("is no number that a plan can hold", f"write a finite number, or {quoted}"),
        }[next(name for name, value in match.groupdict().items() if value is not None)]
        return AMBIGUOUS_SCALAR.at(self.span(event), f"`{text}` {message}", hint=hint)
