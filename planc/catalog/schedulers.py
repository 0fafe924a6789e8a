"""The schedulers of diffusers, and the values that the config of each takes. `planc sync` writes the list."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path

PATH = Path(__file__).parent / "schedulers.json"


@cache
def schedulers() -> Mapping[str, frozenset[str]]:
    """Class of each scheduler, and the names of its config's values."""
    data = json.loads(PATH.read_text(encoding="utf-8"))
    return {name: frozenset(keys) for name, keys in data.items()}
