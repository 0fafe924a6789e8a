"""The last gate of generated Python: it parses, uses no undefined name and imports nothing in vain.

LibCST parses; scopes come from the interpreter's own symbol table, as resolving them with LibCST takes six times as
long as all else that is done to a script.
"""

from __future__ import annotations

import ast
import builtins
import symtable
from collections.abc import Iterator
from symtable import SymbolTable

import libcst as cst

_KNOWN = frozenset(dir(builtins)) | {"__doc__", "__name__", "__file__"}

Scope = tuple[str, int]
"""The name and line of a function or class; the module's is `("top", 0)`."""


class EmittedCodeError(Exception):
    """Generated code is broken: a bug of planc, never of a plan."""


def gate(path: str, text: str) -> str:
    """`text`, if it is a sound module.

    Raises:
        EmittedCodeError: it does not parse, uses an undefined name, or has an unused import.
    """
    try:
        cst.parse_module(text)
        tree = ast.parse(text, path)
        top = symtable.symtable(text, path, "exec")
    except (cst.ParserSyntaxError, SyntaxError) as error:
        raise EmittedCodeError(f"{path}: {error}") from error
    faults = {*_undefined(top), *_unused(top, tree, text.splitlines())}
    if faults:
        raise EmittedCodeError(f"{path}: {', '.join(sorted(faults))}")
    return text


def _tables(table: SymbolTable) -> Iterator[SymbolTable]:
    """A table and all below it."""
    yield table
    for child in table.get_children():
        yield from _tables(child)


def _undefined(top: SymbolTable) -> Iterator[str]:
    """Names that a scope looks up in the module, where nothing binds them."""
    known = _KNOWN | {
        symbol.get_name()
        for table in _tables(top)
        for symbol in table.get_symbols()
        if (table is top or symbol.is_declared_global()) and (symbol.is_assigned() or symbol.is_imported())
    }
    for table in _tables(top):
        for symbol in table.get_symbols():
            name = symbol.get_name()
            if symbol.is_referenced() and (table is top or symbol.is_global()) and name not in known:
                yield f"undefined name {name!r}"


def _unused(top: SymbolTable, tree: ast.Module, rows: list[str]) -> Iterator[str]:
    """Imports whose name no scope looks up."""
    used = {(table.get_name(), table.get_lineno()): _looked_up(table, top) for table in _tables(top)}
    for scope, node in _imports(tree, ("top", 0)):
        row = rows[(node.end_lineno or 0) - 1].encode()[node.end_col_offset :]
        for alias in node.names if b"noqa: F401" not in row else ():
            name = alias.asname or alias.name
            if name.partition(".")[0] not in used[scope]:
                yield f"unused import {name!r}"


def _looked_up(table: SymbolTable, top: SymbolTable) -> set[str]:
    """The names that are looked up in a scope, by itself or from one inside it."""
    own = {symbol.get_name() for symbol in table.get_symbols() if symbol.is_referenced()}
    inner = {
        symbol.get_name()
        for child in _tables(table)
        if child is not table
        for symbol in child.get_symbols()
        if symbol.is_referenced() and (symbol.is_global() if table is top else symbol.is_free())
    }
    return own | inner


def _imports(node: ast.AST, scope: Scope) -> Iterator[tuple[Scope, ast.Import | ast.ImportFrom]]:
    """Each import and the scope that it binds names in."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield scope, child
        elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield from _imports(child, (child.name, child.lineno))
        elif isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):
            yield from _imports(child, scope)
