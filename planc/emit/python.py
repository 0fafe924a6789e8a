"""The last gate of generated Python: it parses, uses no undefined name and imports nothing in vain."""

from __future__ import annotations

import builtins

import libcst as cst
from libcst.metadata import ImportAssignment, MetadataWrapper, ParentNodeProvider, ScopeProvider

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
    parents = wrapper.resolve(ParentNodeProvider)
    faults: set[str] = set()
    for scope in set(wrapper.resolve(ScopeProvider).values()):
        if scope is None:
            continue
        for access in scope.accesses:
            if not access.referents and isinstance(access.node, cst.Name) and access.node.value not in _KNOWN:
                faults.add(f"undefined name {access.node.value!r}")
        imports = [item for item in scope.assignments if isinstance(item, ImportAssignment)]
        used = {_root(item) for item in imports if item.references}
        for item in imports:
            if _root(item) not in used and not _is_for_its_effect(parents.get(item.node)):
                faults.add(f"unused import {item.name!r}")
    if faults:
        raise EmittedCodeError(f"{path}: {', '.join(sorted(faults))}")
    return text


def _root(item: ImportAssignment) -> str:
    return item.name.partition(".")[0]


def _is_for_its_effect(statement: cst.CSTNode | None) -> bool:
    """Whether the import's line says to linters that importing it is the point."""
    if not isinstance(statement, cst.SimpleStatementLine):
        return False
    comment = statement.trailing_whitespace.comment
    return comment is not None and "noqa: F401" in comment.value
