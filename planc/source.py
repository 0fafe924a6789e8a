"""YAML text → `Document`: the data, and a span for every key and value.

Reads libyaml's events directly, so that every trap of YAML becomes a diagnostic instead of a silent guess.
Scalars follow the core schema of YAML 1.2; what YAML 1.1 would read otherwise (`off`, `1:30`, `017`) is refused.
"""

from __future__ import annotations

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
_NULL = {"", "~", "null", "Null", "NULL"}
_BOOL = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INT = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_YAML_1_1 = re.compile(
    r"""(?x)
    (?P<boolean> yes|Yes|YES|no|No|NO|on|On|ON|off|Off|OFF|y|Y|n|N )
    | (?P<sexagesimal> [-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)? )
    | (?P<number> [-+]?(0[0-9_]+|0o[0-7]+|0x[0-9a-fA-F_]+|0b[01_]+|[0-9][0-9_]*_[0-9_]*(\.[0-9_]*)?|\.(inf|Inf|INF|nan|NaN|NAN)) )
    | (?P<date> [0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([Tt\ ].*)? )
    """
)


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


def read(path: str, findings: Findings) -> Document | None:
    """Read and parse the file at `path`; None, with a finding, where it has no tree."""
    text = read_text(path, findings)
    return None if text is None else parse(path, text, findings)


def read_text(path: str, findings: Findings) -> str | None:
    """The text of the file at `path`; None, with a finding, where it cannot be read."""
    start = Span(path, 1, 1, 1, 1)
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        reason = error.strerror or type(error).__name__
        hint = "`planc init` writes a first plan" if isinstance(error, FileNotFoundError) else None
        findings.add(UNREADABLE.at(start, f"cannot read {path}: {reason}", hint=hint))
        return None
    if len(data) > MAX_BYTES:
        findings.add(TOO_LARGE.at(start, f"the plan has {len(data):,} bytes; planc reads at most {MAX_BYTES:,}"))
        return None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8", "replace")
        line, column = before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1
        span = Span(path, line, column, line, column + 1)
        findings.add(
            NOT_UTF8.at(
                span,
                f"byte 0x{data[error.start]:02x} is not UTF-8",
                hint="save the file as UTF-8",
            )
        )
        return None


def parse(path: str, text: str, findings: Findings) -> Document | None:
    """Parse the text of a plan; None, with a finding, where it has no tree."""
    reader = _Reader(path, text, findings)
    try:
        root = reader.document()
    except _Refused as refused:
        findings.add(refused.diagnostic)
        return None
    except yaml.MarkedYAMLError as error:
        findings.add(_syntax(path, text, error))
        return None
    except yaml.YAMLError as error:
        position = getattr(error, "position", 0)
        before = text[:position]
        line, column = before.count("\n") + 1, position - (before.rfind("\n") + 1) + 1
        span = Span(path, line, column, line, column + 1)
        reason = getattr(error, "reason", None) or "control characters are not allowed"
        findings.add(NOT_UTF8.at(span, f"a character that YAML does not allow: {reason}"))
        return None
    return Document(path, text, root)


def _syntax(path: str, text: str, error: yaml.MarkedYAMLError) -> Diagnostic:
    mark = error.problem_mark or error.context_mark
    line, column = (mark.line, mark.column) if mark else (0, 0)
    span = Span(path, line + 1, column + 1, line + 1, column + 2)
    lines = text.splitlines()
    for row in (line, line - 1):
        indent = re.match(r"[ \t]*", lines[row])[0] if 0 <= row < len(lines) else ""  # type: ignore[index]  # always matches
        if "\t" in indent:
            at = indent.index("\t") + 1
            tab = Span(path, row + 1, at, row + 1, at + 1)
            return TAB.at(tab, "a tab in the indentation", label="this is a tab", hint="indent with spaces")
    problem = error.problem or "not YAML"
    context = f" {error.context}" if error.context else ""
    return SYNTAX.at(span, f"{problem}{context}", hint="check brackets, quotes and indentation above this place")


class _Reader:
    """Builds the tree from the parser's events."""

    def __init__(self, path: str, text: str, findings: Findings) -> None:
        self.path = path
        self.findings = findings
        self.events: Iterator[Any] = iter(yaml.parse(text, Loader=_Loader))
        self.anchors: dict[str, Located | None] = {}
        self.sizes: dict[str, int] = {}
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
        start, end = event.start_mark, event.end_mark
        return Span(self.path, start.line + 1, start.column + 1, end.line + 1, end.column + 1)

    def refuse(self, fault: Fault, event: Any, message: str, hint: str | None = None) -> _Refused:
        """A finding after which the tree has no meaning."""
        return _Refused(fault.at(self.span(event), message, hint=hint))

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
            return self.alias(event)
        if event.tag is not None and event.tag != "!":
            raise self.refuse(UNUSABLE_NODE, event, f"the tag `{event.tag}` is not allowed", "write the plain value")
        if event.anchor:
            self.anchors[event.anchor] = None
        before = self.count
        if isinstance(event, yaml.ScalarEvent):
            located = Located(self.scalar(event), self.span(event))
        elif isinstance(event, yaml.SequenceStartEvent):
            located = self.sequence(event, depth)
        else:
            located = self.mapping(event, depth)
        if event.anchor:
            self.anchors[event.anchor] = located
            self.sizes[event.anchor] = self.count - before + 1
        return located

    def alias(self, event: Any) -> Located:
        """The anchored value; it counts as often as it is used."""
        if event.anchor not in self.anchors:
            raise self.refuse(UNUSABLE_NODE, event, f"the alias `*{event.anchor}` has no anchor")
        located = self.anchors[event.anchor]
        if located is None:
            raise self.refuse(TOO_DEEP, event, f"the alias `*{event.anchor}` stands inside its own anchor")
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
        if _INT.fullmatch(text):
            return int(text) if len(text) < 40 else text
        if match := _YAML_1_1.fullmatch(text):
            self.findings.add(self.ambiguous(event, match))
            return text
        return float(text) if _FLOAT.fullmatch(text) else text

    def ambiguous(self, event: Any, match: re.Match[str]) -> Diagnostic:
        """Say what the readers disagree on."""
        text = match[0]
        kind = next(name for name, value in match.groupdict().items() if value is not None)
        elsewhere = {
            "boolean": "true" if text.lower() in ("yes", "on", "y") else "false",
            "sexagesimal": "a number of base 60",
            "number": "a number",
            "date": "a date",
        }[kind]
        plain = f"`{elsewhere}`" if kind == "boolean" else "the plain number" if kind != "date" else "quoted text"
        return AMBIGUOUS_SCALAR.at(
            self.span(event),
            f"`{text}` is {elsewhere} in YAML 1.1 and text in YAML 1.2",
            hint=f'write {plain}, or quote the text: "{text}"' if kind != "date" else f'quote the text: "{text}"',
        )
