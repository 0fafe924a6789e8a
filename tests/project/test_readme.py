"""The README's examples are what planc really reads, says and writes."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

EXAMPLE = re.compile(r"<!-- example: (?P<what>.+?) -->\n```\w*\n(?P<text>.*?)```", re.DOTALL)


@pytest.fixture
def examples(root: Path) -> dict[str, str]:
    """The README's marked code blocks, by their mark."""
    readme = (root / "README.md").read_text(encoding="utf-8")
    return {match["what"]: match["text"] for match in EXAMPLE.finditer(readme)}


@pytest.fixture
def mine(examples: dict[str, str], tmp_path: Path) -> Path:
    """The README's plan, as a file."""
    path = tmp_path / "mine.yaml"
    path.write_text(examples["plan mine.yaml"], encoding="utf-8")
    return path


def test_the_plan_lints_clean(mine: Path, planc: Callable[..., object]) -> None:
    """The README's plan has nothing to find."""
    assert "nothing found" in planc("lint", mine.name, cwd=mine.parent).stdout  # type: ignore[attr-defined]


def test_the_diagnostic_is_what_planc_says(examples: dict[str, str], mine: Path, planc: Callable[..., object]) -> None:
    """The README shows the very text that `planc lint` prints for the change it names."""
    mark = next(what for what in examples if what.startswith("lint "))
    _, name, old, _, new = shlex.split(mark)
    mine.write_text(mine.read_text().replace(old, new))
    assert planc("lint", name, cwd=mine.parent).stdout == examples[mark]  # type: ignore[attr-defined]


def test_the_script_is_what_planc_writes(examples: dict[str, str], mine: Path, planc: Callable[..., object]) -> None:
    """The README shows a function of the generated script, letter for letter."""
    mark = next(what for what in examples if what.startswith("script "))
    _, path, function = mark.split()
    planc("build", mine.name, cwd=mine.parent)
    text = (mine.parent / "generated" / path).read_text()
    node = next(node for node in ast.parse(text).body if getattr(node, "name", "") == function)
    assert ast.get_source_segment(text, node) == examples[mark].rstrip("\n")
