"""A sign of life while something long runs: on a terminal only, and rich is imported only then."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def working(message: str) -> Iterator[None]:
    """Show `message` with a spinner on standard error while the block runs."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(message):
        yield
