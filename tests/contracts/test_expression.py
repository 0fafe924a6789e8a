"""The arithmetic of cards: whole numbers over named sizes, and nothing else."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planc.catalog import expression

SIZES = {"heads": 24, "width": 128, "ratio": 3.0, "half": 0.5, "has_guidance": True}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("7", 7),
        ("heads", 24),
        ("heads * width", 3072),
        ("ratio * heads * width", 9216),
        ("2 + heads * 3 - 1", 73),
        ("(heads // 5) * 2", 8),
        ("half * heads", 12),
        ("heads / 2", 12),
        ("round(heads / 5)", 5),
        ("round(sqrt(heads)) * 32", 160),
        ("has_guidance", 1),
        ("3.0", 3),
    ],
)
def test_value(text: str, value: int) -> None:
    """Sums, differences, products and floor quotients over names have their value, as an int."""
    result = expression.evaluate(text, SIZES)
    assert result == value
    assert type(result) is int


@pytest.mark.parametrize(
    "text",
    [
        "heads ** 2",
        "heads % 5",
        "heads << 1",
        "heads < width",
        "heads and width",
        "heads if heads else width",
        "[heads]",
        "(heads, width)",
        "{heads}",
        "'heads'",
        "b'heads'",
        "None",
        "...",
        "1j",
        "heads.real",
        "heads[0]",
        "abs(heads)",
        "round(heads, 2)",
        "sqrt(x=heads)",
        "__import__('os').system('true')",
        "(lambda: 1)()",
        "[x for x in (1, 2)]",
        "(heads := 3)",
        "f'{heads}'",
        "not heads",
    ],
)
def test_nothing_but_arithmetic(text: str) -> None:
    """Whatever is no arithmetic over names is refused and never run."""
    with pytest.raises(ValueError, match="not arithmetic"):
        expression.evaluate(text, SIZES)


@pytest.mark.parametrize("text", ["", "heads *", "heads width", "import os", "heads = 3", "heads; width"])
def test_no_expression(text: str) -> None:
    """What is no expression at all is a ValueError too, as the docstring says."""
    with pytest.raises(ValueError):  # the message is that of whoever noticed
        expression.evaluate(text, SIZES)


@pytest.mark.parametrize("text", ["half", "half * 3", "0.1 * heads", "heads / 5", "sqrt(heads)"])
def test_not_whole(text: str) -> None:
    """A value that is no whole number is refused, not rounded."""
    with pytest.raises(ValueError, match="not a whole number"):
        expression.evaluate(text, SIZES)


@pytest.mark.parametrize("text", ["depth", "heads * depth"])
def test_unknown_name(text: str) -> None:
    """A name that has no size is a KeyError that says which."""
    with pytest.raises(KeyError, match="depth"):
        expression.evaluate(text, SIZES)


@pytest.mark.parametrize("size", [float("inf"), float("nan")])
def test_no_number(size: float) -> None:
    """A config's Infinity or NaN, which json allows, is a ValueError and no crash."""
    with pytest.raises(ValueError):  # as above
        expression.evaluate("ratio * heads", {**SIZES, "ratio": size})
    with pytest.raises(ValueError):
        expression.evaluate("round(ratio)", {**SIZES, "ratio": size})


def test_division_by_zero() -> None:
    """A quotient that has no value is a ValueError too."""
    with pytest.raises(ValueError):  # as above
        expression.evaluate("heads // (width - 128)", SIZES)


def test_names() -> None:
    """The names of an expression are those that it needs, each once."""
    assert expression.names("(height // 16) * (width // 16) + height") == {"height", "width"}
    assert expression.names("3 * 4") == frozenset()


@given(st.text(max_size=30))
def test_any_text_is_refused_or_whole(text: str) -> None:
    """Any text gives a whole number, or one of the errors that the docstring names."""
    with contextlib.suppress(KeyError, ValueError):
        assert type(expression.evaluate(text, SIZES)) is int
