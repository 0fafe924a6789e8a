"""The last gate of generated Python: it parses, uses no undefined name and imports nothing in vain."""

from __future__ import annotations

import builtins

import libcst as cst
from libcst.metadata import ImportAssignment, MetadataWrapper, ScopeProvider

_KNOWN = frozenset(dir(builtins)) | {"__doc__", "__name__", "__file__"}


class EmittedCodeError(Exception):
    """Generated code is broken: a bug of planc, never of a plan."""


def gate(path: str, text: str) -> str:
    """`text`, if it is a sound module.

    Raises:
        EmittedCodeError: it does not parse, uses an undefined name, or has an unused import.
    """
    try:
        module = cst.parse_module(text)
    except cst.ParserSyntaxError as error:
        raise EmittedCodeError(f"{path}: {error}") from error
    wrapper = MetadataWrapper(module, unsafe_skip_copy=True)
    faults: set[str] = set()
    for scope in set(wrapper.resolve(ScopeProvider).values()):
        if scope is None:
            continue
        for access in scope.accesses:
            if not access.referents and isinstance(access.node, cst.Name) and access.node.value not in _KNOWN:
                faults.add(f"undefined name {access.node.value!r}")
        for assignment in scope.assignments:
            if (
                isinstance(assignment, ImportAssignment)
                and not assignment.references
                and not _registers(text, assignment)
            ):
                faults.add(f"unused import {assignment.name!r}")
    if faults:
        raise EmittedCodeError(f"{path}: {', '.join(sorted(faults))}")
    return text


def _registers(text: str, assignment: ImportAssignment) -> bool:
    """Whether the import is there for its effect, and says so to linters too."""
    return any(
        line.lstrip().startswith(f"import {assignment.name}") and "noqa: F401" in line for line in text.splitlines()
    )
