"""Runs a script whose denoisers compile with the backend `counting`, and says how many graphs that was."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Callable
from typing import Any

from torch._dynamo import register_backend

graphs: list[Any] = []


def count(graph: Any, _: list[Any]) -> Callable[..., Any]:
    """Take note of a graph, and run it as it is."""
    graphs.append(graph)
    run: Callable[..., Any] = graph.forward
    return run


register_backend(count, name="counting")
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
print(f"graphs: {len(graphs)}")
