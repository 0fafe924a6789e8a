"""Small arithmetic over named sizes, such as `num_attention_heads * attention_head_dim`."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from functools import cache

Number = int | float

_OPERATORS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Div: operator.truediv,
}
_FUNCTIONS: Mapping[str, Callable[[Number], Number]] = {"round": round, "sqrt": math.sqrt}


@cache
def _tree(text: str) -> ast.expr:
    try:
        return ast.parse(text, mode="eval").body
    except (SyntaxError, RecursionError, MemoryError) as error:
        raise ValueError(f"not arithmetic over names: {text!r}") from error


def names(text: str) -> frozenset[str]:
    """The names that the expression needs."""
    return frozenset(
        node.id for node in ast.walk(_tree(text)) if isinstance(node, ast.Name) and node.id not in _FUNCTIONS
    )


def evaluate(text: str, sizes: Mapping[str, Number]) -> int:
    """The value of the expression, a whole number.

    Raises:
        KeyError: a name is not among `sizes`.
        ValueError: the text is no such expression, or its value is no whole number.
    """
    try:
        value = _value(_tree(text), sizes)
    except (ZeroDivisionError, OverflowError) as error:
        raise ValueError(f"{text!r} has no value: {error}") from error
    if not math.isfinite(value) or value != int(value):
        raise ValueError(f"{text!r} is {value}, not a whole number")
    return int(value)


def _value(node: ast.expr, sizes: Mapping[str, Number]) -> Number:
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return node.value
    if isinstance(node, ast.Name):
        return sizes[node.id]
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        result: Number = _OPERATORS[type(node.op)](_value(node.left, sizes), _value(node.right, sizes))
        return result
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) == 1 and not node.keywords:
        function = _FUNCTIONS.get(node.func.id)
        if function is not None:
            return function(_value(node.args[0], sizes))
    raise ValueError(f"not arithmetic over names: {ast.unparse(node)!r}")
