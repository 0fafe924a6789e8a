"""Finds the files that ship beside the code: `schemas/` and `templates/`.

In a wheel they lie inside the package; an editable install and a checkout have them at the top level.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent


def folder(name: str) -> Path:
    """The folder `name` of the installed wheel, else of the checkout.

    Raises:
        FileNotFoundError: neither has it, so the installation is broken.
    """
    for parent in (PACKAGE, PACKAGE.parent):
        if (parent / name).is_dir():
            return parent / name
    raise FileNotFoundError(f"planc's own folder {name!r} is missing: install planc again")


def text(folder_name: str, file_name: str) -> str:
    """The text of one shipped file."""
    return (folder(folder_name) / file_name).read_text(encoding="utf-8")


def digest(text: str) -> str:
    """sha256 of a text."""
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
