"""Reads the schedulers of the installed diffusers: their classes, and what the config of each takes."""

from __future__ import annotations

import inspect
import json


def generate() -> dict[str, list[str]]:
    """Class of each scheduler, and the names of its config's values, sorted."""
    import diffusers
    from diffusers import SchedulerMixin

    found = {}
    for name in sorted(name for name in dir(diffusers) if name.endswith("Scheduler")):
        known = getattr(diffusers, name)
        if inspect.isclass(known) and issubclass(known, SchedulerMixin):
            found[name] = sorted(set(inspect.signature(known.__init__).parameters) - {"self", "kwargs"})
    return found


def dump(data: dict[str, list[str]]) -> str:
    """The text of the file: a line for each scheduler."""
    rows = (f"  {json.dumps(name)}: {json.dumps(keys)}" for name, keys in data.items())
    return "{\n" + ",\n".join(rows) + "\n}\n"
