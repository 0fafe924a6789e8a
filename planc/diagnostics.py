"""What planc says about a plan: where, what is wrong, and what to write instead.

A user's mistake is data here, never an exception: each phase collects what it finds and
the next phase runs only where there were no errors.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum


class Severity(Enum):
    """How much a diagnostic weighs: errors stop a build, warnings fail a lint, notes only inform."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """A stretch of a file; lines and columns count from 1, the end is exclusive."""

    path: str
    line: int
    column: int
    end_line: int
    end_column: int

    def __str__(self) -> str:
        """`path:line:column`, as editors and terminals link it."""
        return f"{self.path}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace what stands in `span` by `text`."""

    span: Span
    text: str


@dataclass(frozen=True, slots=True)
class Fix:
    """Edits that mend a fault; `is_safe` claims that they keep the plan's meaning."""

    title: str
    edits: tuple[Edit, ...]
    is_safe: bool


@dataclass(frozen=True, slots=True)
class Related:
    """Another place that explains a diagnostic."""

    span: Span
    message: str


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One finding. Its first line alone must do: the message holds both numbers."""

    code: str
    name: str
    severity: Severity
    message: str
    span: Span
    label: str = ""
    notes: tuple[str, ...] = ()
    hint: str | None = None
    fix: Fix | None = None
    related: tuple[Related, ...] = ()

    @property
    def sort_key(self) -> tuple[Span, str, str]:
        """Order by place in the file, then by code."""
        return (self.span, self.code, self.message)


@dataclass(frozen=True, slots=True)
class Fault:
    """A kind of mistake: its code and name are never used again for something else.

    `doc` has the sections *What it does*, *Why is this bad*, *Example* and *Use instead*; it feeds
    `planc explain`, the rule catalogue and the tests.
    """

    code: str
    name: str
    severity: Severity
    doc: str

    def at(
        self,
        span: Span,
        message: str,
        *,
        label: str = "",
        notes: Iterable[str] = (),
        hint: str | None = None,
        related: Iterable[Related] = (),
    ) -> Diagnostic:
        """Say that this fault stands at `span`."""
        return Diagnostic(
            code=self.code,
            name=self.name,
            severity=self.severity,
            message=message,
            span=span,
            label=label,
            notes=tuple(notes),
            hint=hint,
            related=tuple(related),
        )


@dataclass(slots=True)
class Findings:
    """Collects diagnostics over the phases; iterates sorted and without repeats."""

    _items: list[Diagnostic] = field(default_factory=list)

    def add(self, *diagnostics: Diagnostic) -> None:
        """Take in what a phase found."""
        self._items.extend(diagnostics)

    @property
    def has_errors(self) -> bool:
        """Whether the next phase must not run."""
        return any(item.severity is Severity.ERROR for item in self._items)

    @property
    def fails_lint(self) -> bool:
        """Whether something other than a note was found."""
        return any(item.severity is not Severity.NOTE for item in self._items)

    def __iter__(self) -> Iterator[Diagnostic]:
        """Sorted by place. A target that extends another repeats its faults: each is said once."""
        return iter(sorted(dict.fromkeys(self._items), key=lambda item: item.sort_key))

    def __len__(self) -> int:
        """Count without repeats."""
        return len(dict.fromkeys(self._items))
