"""A tree of values that know where they were written, and records built from it."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from functools import cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from planc.diagnostics import Span

Path = tuple[str | int, ...]
"""Keys and indices from the root of a tree to one of its values."""
NOWHERE = Span("<data>", 1, 1, 1, 1)


@dataclass(frozen=True, slots=True)
class Located:
    """A value with its span and, in a mapping, the span of its key.

    `value` is a scalar, a tuple of `Located` (a sequence) or a dict from str to `Located` (a mapping).
    """

    value: Any
    span: Span
    key_span: Span | None = None

    @classmethod
    def of(cls, data: Any) -> Located:
        """Wrap plain data that was not read from a plan."""
        if isinstance(data, Mapping):
            return cls({str(key): cls.of(item) for key, item in data.items()}, NOWHERE)
        if isinstance(data, list | tuple):
            return cls(tuple(cls.of(item) for item in data), NOWHERE)
        return cls(data, NOWHERE)

    @property
    def plain(self) -> Any:
        """The same data without spans."""
        if isinstance(self.value, dict):
            return {key: item.plain for key, item in self.value.items()}
        if isinstance(self.value, tuple):
            return [item.plain for item in self.value]
        return self.value

    def child(self, step: str | int) -> Located | None:
        """The value under a key or at an index; None where there is none."""
        if isinstance(self.value, dict):
            found: Located | None = self.value.get(step)
            return found
        if isinstance(self.value, tuple) and isinstance(step, int) and step < len(self.value):
            item: Located = self.value[step]
            return item
        return None

    def find(self, path: Iterable[str | int]) -> Located:
        """The node at `path`, or the deepest one above it that exists."""
        node = self
        for step in path:
            if (child := node.child(step)) is None:
                break
            node = child
        return node

    @property
    def anchor(self) -> Span:
        """Where to point for the whole node: its key where it has one."""
        return self.key_span or self.span


EMPTY = Located({}, NOWHERE)


@dataclass(frozen=True, kw_only=True)
class Node:
    """A record of the plan. `at` is the tree it was built from, left out of equality."""

    at: Located = field(default=EMPTY, repr=False, compare=False)

    def span(self, *path: str | int) -> Span:
        """Where the value at `path` was written; the deepest node above it where it was not."""
        return self.at.find(path).span if self.says(*path) else self.at.find(path).anchor

    def key_span(self, *path: str | int) -> Span:
        """Where the key of `path` was written."""
        return self.at.find(path).anchor

    def says(self, *path: str | int) -> bool:
        """Whether the plan wrote `path` itself, and not null."""
        node: Located | None = self.at
        for step in path:
            node = None if node is None else node.child(step)
        return node is not None and node.value is not None


def merge(base: Located, over: Located) -> Located:
    """Lay `over` on `base`: mappings merge by key, all else replaces; null stays and restores a default."""
    if not (isinstance(base.value, dict) and isinstance(over.value, dict)):
        return over
    merged = dict(base.value)
    for key, item in over.value.items():
        merged[key] = merge(merged[key], item) if key in merged else item
    return Located(merged, over.span, over.key_span)


def key_of(field_name: str) -> str:
    """The plan's key of a record field: a trailing underscore keeps Python keywords apart."""
    return field_name.rstrip("_")


@cache
def hints_of(record: type) -> Mapping[str, Any]:
    """The resolved annotations of a record, its metadata kept."""
    return get_type_hints(record, include_extras=True)


Missing = Callable[[Path, Located, str], None]
"""What `build` calls for a required key that is absent: the node's path, the node, the key."""


Maker = Callable[[Located, Missing, Path], Any]
"""Makes a value from a node, whose path is given."""


def build(hint: Any, node: Located, missing: Missing, path: Path = ()) -> Any:
    """Make a value of type `hint` from `node`, whose shape the schema has checked.

    Calls `missing(path, node, key)` for each required key that is absent, and goes on; `path` is the node's.
    """
    return _maker(hint)(node, missing, path)


def issubclass_safe(candidate: Any, parent: type) -> bool:
    """`issubclass` that answers False for what is no class, such as Literal."""
    return isinstance(candidate, type) and issubclass(candidate, parent)


def _maker(hint: Any) -> Maker:
    """How a value of type `hint` is made: the type is looked into once, not for each of many values."""
    origin = get_origin(hint)
    if origin is Annotated:
        return _maker(get_args(hint)[0])
    if origin in (Union, types.UnionType):
        return _union_maker(get_args(hint))
    if origin is tuple:
        make = _maker(get_args(hint)[0])
        return lambda node, missing, path: tuple(make(item, missing, (*path, i)) for i, item in enumerate(node.value))
    if issubclass_safe(origin, Mapping):
        return _mapping_maker(get_args(hint)[1])
    if is_dataclass(hint) and isinstance(hint, type):
        return lambda node, missing, path: _build_record(hint, node, missing, path)
    return lambda node, missing, path: node.plain


def _mapping_maker(item_hint: Any) -> Maker:
    make, keeps_null = _maker(item_hint), type(None) not in get_args(item_hint)
    return lambda node, missing, path: {
        key: make(item, missing, (*path, key))
        for key, item in node.value.items()
        if item.value is not None or keeps_null
    }


@cache
def _fields(record: type) -> tuple[tuple[str, str, bool, Maker], ...]:
    """Of each field but `at`: its name, its key, whether it is required, and how its value is made."""
    hints = hints_of(record)
    return tuple(
        (
            item.name,
            key_of(item.name),
            item.default is MISSING and item.default_factory is MISSING,
            _maker(hints[item.name]),
        )
        for item in fields(record)
        if item.name != "at"
    )


def _build_record(record: type, node: Located, missing: Missing, path: Path) -> Any:
    values: dict[str, Any] = {"at": node} if issubclass(record, Node) else {}
    for name, key, is_required, make in _fields(record):
        child = node.value.get(key)
        if child is not None and child.value is not None:
            values[name] = make(child, missing, (*path, key))
        elif is_required:
            missing(path, node, key)
            values[name] = None
    return record(**values)


def holds_mappings(node: Located) -> bool:
    """Whether the node is a mapping whose values are all mappings: such a one is no record of plain fields."""
    return (
        bool(node.value)
        and isinstance(node.value, dict)
        and all(isinstance(i.value, dict) for i in node.value.values())
    )


def _union_maker(arms: tuple[Any, ...]) -> Maker:
    """Makes the member of a union that fits what was written."""
    has_both = any(is_dataclass(arm) for arm in arms) and any(issubclass_safe(get_origin(arm), Mapping) for arm in arms)
    makers = [(_fit(arm, has_both), _maker(arm)) for arm in arms]

    def make(node: Located, missing: Missing, path: Path) -> Any:
        for fits, make_arm in makers:
            if fits(node):
                return make_arm(node, missing, path)
        return node.plain

    return make


def _fit(arm: Any, has_both: bool) -> Callable[[Located], bool]:
    """Whether a node looks like a member of a union; `has_both` says that records and mappings are among them."""
    origin = get_origin(arm)
    if origin is Annotated:
        return _fit(get_args(arm)[0], has_both)
    is_record, is_mapping = is_dataclass(arm), issubclass_safe(origin, Mapping)
    choices = get_args(arm) if origin is Literal else ()

    def fits(node: Located) -> bool:
        if isinstance(node.value, dict):
            return is_record != holds_mappings(node) if has_both else is_record or is_mapping
        if isinstance(node.value, tuple):
            return origin is tuple
        if origin is Literal:
            return node.value in choices
        return arm is type(node.value) or (arm is float and type(node.value) is int)

    return fits
