"""The pages in docs/ quote what is there, and link to what exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

EXCERPT = re.compile(r"<!-- excerpt: (?P<path>.+?) -->\n```\w*\n(?P<text>.*?)```", re.DOTALL)
LINK = re.compile(r"\]\((?!https?:)(?P<target>[^)#\s]+)")
ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_excerpts_are_quoted_in_order(page: Path) -> None:
    """Every line of a quoted file stands in it, in that order."""
    for match in EXCERPT.finditer(page.read_text(encoding="utf-8")):
        rows = iter((ROOT / match["path"]).read_text(encoding="utf-8").splitlines())
        for line in match["text"].splitlines():
            assert line in rows, f"{match['path']} lacks, at that place: {line}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    """Every relative link names a file of the checkout."""
    for match in LINK.finditer(page.read_text(encoding="utf-8")):
        assert (page.parent / match["target"]).exists(), match["target"]


def test_every_page_is_reached_from_the_readme() -> None:
    """Each page has a link to it in the README."""
    linked = {match["target"] for match in LINK.finditer((ROOT / "README.md").read_text(encoding="utf-8"))}
    pages = {page.relative_to(ROOT).as_posix() for page in PAGES[1:]} - {"docs/reference/devices.md"}
    assert pages <= linked, pages - linked
