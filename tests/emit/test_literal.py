"""Values → Python text: exact, and laid out as ruff leaves it."""

from __future__ import annotations

import ast
import datetime
import difflib
import random
import re
import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from planc.emit.literal import WIDTH, Call, Name, call, literal

TRAPS = (
    "",
    "'",
    '"',
    "'\"",
    "\\",
    "\\'",
    '\\"',
    "\\\\'\"",
    '"""',
    "'''",
    "a\nb\r\nc\td",
    "{x} {{ x }} {% raw %} {# #}",
    "$(touch pwned) `touch pwned`",
    "\0\x1b\x7f\x85",
    "\u2028\u2029\ufeff\u202e\u200b",
    "\ud800",
    "x\udfff'\"",
    "漢字 é 🦮 e\u0301",
    "\\N{BULLET} \\x41 \\u0041 %s {0}",
)

TEXTS = st.one_of(st.sampled_from(TRAPS), st.text(st.characters(exclude_categories=()), max_size=40))
"""Any text, surrogates included."""
SCALARS = st.one_of(TEXTS, st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.booleans(), st.none())
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(st.one_of(TEXTS, st.integers(), st.booleans(), st.none()), inner, max_size=4),
    ),
    max_leaves=12,
)


def same(left: Any, right: Any) -> bool:
    """Equal, and of equal types all the way down: 1, 1.0 and True are three values here, and so are 0.0 and -0.0."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return len(left) == len(right) and all(map(same, left, right)) and all(same(left[k], right[k]) for k in left)
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    return bool(left == right) and repr(left) == repr(right)


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    value=VALUES,
    indent=st.integers(0, 40),
    before=st.integers(0, 90),
    is_exploded=st.booleans(),
)
@example(value=list(TRAPS), indent=4, before=0, is_exploded=True)
@example(value={text: {text: (text,)} for text in TRAPS}, indent=0, before=0, is_exploded=False)
@example(value=(1.0, 1, True, -0.0, 1e-300, 2**200), indent=0, before=88, is_exploded=False)
def test_the_text_evaluates_to_the_value(value: Any, indent: int, before: int, is_exploded: bool) -> None:
    """A literal evaluates to exactly the value it was made of, wherever it stands and however it is laid out."""
    text = literal(value, indent=indent, before=before, is_exploded=is_exploded)
    assert same(ast.literal_eval(text), value), text
    assert "\r" not in text
    assert "\0" not in text
    assert all(char == "\n" or char.isprintable() for char in text), text
    text.encode("utf-8")


@settings(max_examples=200, deadline=None)
@given(text=TEXTS)
def test_a_string_stays_on_its_line(text: str) -> None:
    """No character of a string starts a new line, for Python, an editor or a terminal."""
    assert len(literal(text).splitlines()) == 1


def _random_value(pick: random.Random, depth: int, words: Callable[[random.Random], str]) -> Any:
    kind = pick.choice(["text", "number", "flag", *(["list", "tuple", "dict"] * 2 if depth else [])])
    match kind:
        case "text":
            return words(pick)
        case "number":
            return pick.choice([pick.randint(-10, 10**6), pick.uniform(-5, 5), 1e-6, -0.0])
        case "flag":
            return pick.choice([True, False, None])
        case "dict":
            return {words(pick)[:30]: _random_value(pick, depth - 1, words) for _ in range(pick.randint(0, 5))}
    items = [_random_value(pick, depth - 1, words) for _ in range(pick.randint(0, 6))]
    return items if kind == "list" else tuple(items)


def _ascii_words(pick: random.Random) -> str:
    pieces = ["a", "blocks.*.to_q", "colwise", '"', "'", "\\", "\n", "{{ x }}", " ", "photorealistic", "\0", "\u2028"]
    return "".join(pick.choice(pieces) for _ in range(pick.randint(0, 6)))


def _wide_words(pick: random.Random) -> str:
    return "".join(pick.choice(["漢", "字", "é", "🦮", "a", "e\u0301"]) for _ in range(pick.randint(0, 30)))


def _ruff_format(module: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "ruff", "format", "--isolated", "--line-length", str(WIDTH), "-"],
        input=module,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def _changed_by_ruff(texts: list[str]) -> list[str]:
    """A diff for each text that `ruff format` lays out otherwise, the shortest first; one ruff call for all."""
    module = "".join(f"# {index}\nx = {text}\n" for index, text in enumerate(texts))
    formatted = [text.rstrip("\n") for text in re.split(r"(?m)^# \d+\nx = ", _ruff_format(module))[1:]]
    assert len(formatted) == len(texts)
    diffs = [
        "\n".join(difflib.unified_diff(text.splitlines(), after.splitlines(), "literal()", "ruff", lineterm="", n=1))
        for text, after in zip(texts, formatted, strict=True)
        if text != after
    ]
    return sorted(diffs, key=len)


def _collections(words: Callable[[random.Random], str]) -> list[str]:
    pick = random.Random(20)
    values: list[Any] = [[_random_value(pick, 3, words) for _ in range(pick.randint(1, 5))] for _ in range(100)]
    values += [tuple(_random_value(pick, 3, words) for _ in range(pick.randint(2, 5))) for _ in range(100)]
    values += [{words(pick): _random_value(pick, 3, words) for _ in range(pick.randint(1, 5))} for _ in range(100)]
    return [literal(value, before=len("x = "), is_exploded=index % 3 == 0) for index, value in enumerate(values)]


@pytest.mark.parametrize("words", [_ascii_words, _wide_words], ids=["narrow", "wide"])
def test_ruff_format_leaves_collections_alone(words: Callable[[random.Random], str]) -> None:
    """`ruff format` at 88 columns changes nothing in a collection, whatever its nesting, quotes or wide characters."""
    texts = _collections(words)
    changed = _changed_by_ruff(texts)
    assert not changed, f"{len(changed)} of {len(texts)} changed; the first:\n{changed[0]}"


def test_ruff_format_leaves_numbers_alone() -> None:
    """`ruff format` changes nothing in a number, however large or small."""
    numbers = [1e16, 1e22, -1e300, 1e-7, 0.1, -0.0, 1e15, 12345678.9, 2**70, -1]
    assert not _changed_by_ruff([literal(number) for number in numbers])


def test_ruff_format_leaves_an_exploded_tuple_alone() -> None:
    """An exploded collection of one element stays as `ruff format` has it; the comma of a one-tuple is not magic."""
    values: list[Any] = [(1,), ("x" * 90,), ((1,),), [(1,)], [1], {"a": (1,)}]
    assert not _changed_by_ruff([literal(value, before=4, is_exploded=True) for value in values])


@settings(max_examples=100, deadline=None)
@given(lengths=st.lists(st.integers(1, 10), min_size=1, max_size=5), indent=st.sampled_from([0, 4, 8]))
def test_a_collection_is_split_only_where_it_does_not_fit(lengths: list[int], indent: int) -> None:
    """A list that fits the line with the comma behind it stays on it, and one that does not is split."""
    value = ["x" * length for length in lengths]
    flat = f"[{', '.join(map(literal, value))}]"
    left = WIDTH - indent - len(flat) - len(",")
    assert literal(value, indent=indent, before=left) == flat
    split = literal(value, indent=indent, before=left + 1).splitlines()
    assert (split[0], split[-1]) == ("[", " " * indent + "]")
    assert split[1:-1] == [f'{" " * indent}    "{item}",' for item in value]


def test_names_and_calls_are_code() -> None:
    """A Name is written as it is and a Call as a call of literals, alone and inside collections."""
    assert literal(Name("torch.float32")) == "torch.float32"
    assert literal(Call("PackedRowwiseParallel")) == "PackedRowwiseParallel()"
    assert literal(Call("f", ([1, 1], "a", {"k": Name("n")}))) == 'f([1, 1], "a", {"k": n})'
    assert literal({"a": [Call("f", (1,)), Name("n")]}) == '{"a": [f(1), n]}'
    assert literal({"a": Call("f", ([1, 2],))}, is_exploded=True) == '{\n    "a": f([1, 2]),\n}'


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), float("nan")])
def test_what_has_no_literal_is_still_its_value(value: float) -> None:
    """Infinities and NaN, which Python has no literal for, become a call that gives them."""
    assert repr(eval(literal(value), {"__builtins__": {"float": float}})) == repr(value)


@pytest.mark.parametrize(
    "value",
    [b"bytes", {1, 2}, 1j, Fraction(1, 3), datetime.date(2026, 1, 1), object(), ..., range(3)],
    ids=lambda value: type(value).__name__,
)
def test_other_values_are_refused(value: object) -> None:
    """A value that is no plain data is a TypeError, however deep it stands, never its repr."""
    for whole in (value, [value], (1, value), {"key": value}, {"key": [{"deep": value}]}, Call("f", (value,))):
        with pytest.raises(TypeError, match=type(value).__name__):
            literal(whole)


def test_a_call_is_split_where_it_does_not_fit() -> None:
    """A call of Python texts takes one line of at most 88 columns, else a line an argument."""
    exact = "x" * (88 - 4 - len("f(, y)"))
    assert call("f", [exact, "y"], indent=4) == f"f({exact}, y)"
    assert call("f", [exact + "x", "y"], indent=4) == f"f(\n        {exact}x,\n        y,\n    )"
    assert call("f", ["[\n    1,\n]"], indent=0) == "f(\n    [\n    1,\n],\n)"
