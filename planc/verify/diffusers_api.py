"""The private names of diffusers and torch that planc depends on. Seen in diffusers 0.42.1 and torch 2.13.0.

`tests/contracts` holds each of them; the cpu-mesh partial of a generated cpu script is the only other place
that knows one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any


def transformer_class(name: str) -> Any:
    """The class `name` of diffusers.

    Raises:
        AttributeError: this diffusers has no such class.
    """
    import diffusers

    return getattr(diffusers, name)


def repeated_blocks(model_class: Any) -> Sequence[str]:
    """Class names of the blocks that `compile_repeated_blocks` compiles; empty where the class has none."""
    return tuple(getattr(model_class, "_repeated_blocks", None) or ())


def cp_plan(model_class: Any) -> list[dict[str, Any]]:
    """The class's own context-parallel plan, an object a tensor; empty where it has none."""
    entries: list[dict[str, Any]] = []
    for module, tensors in (getattr(model_class, "_cp_plan", None) or {}).items():
        if not isinstance(tensors, dict):
            entries.append(_split_entry(module, None, tensors.gather_dim, tensors))
            continue
        for tensor, how in tensors.items():
            entries.append(_split_entry(module, str(tensor), how.split_dim, how))
            entries[-1]["split_output"] = how.split_output
    return entries


def _split_entry(module: str, tensor: str | None, dim: int, how: Any) -> dict[str, Any]:
    return {"module": module, "tensor": tensor, "dim": dim, "expected_dims": how.expected_dims}


def tp_plan(model_class: Any) -> dict[str, tuple[str, list[int] | None]]:
    """The class's own tensor-parallel plan as pattern → (style, blocks); empty where it has none."""
    from diffusers.hooks.tensor_parallel import PackedColwiseParallel, PackedRowwiseParallel

    plan: dict[str, tuple[str, list[int] | None]] = {}
    for pattern, style in (getattr(model_class, "_tp_plan", None) or {}).items():
        if isinstance(style, PackedColwiseParallel):
            plan[pattern] = ("packed_colwise", style.blocks)
        elif isinstance(style, PackedRowwiseParallel):
            plan[pattern] = ("packed_rowwise", style.blocks)
        else:
            plan[pattern] = (style, None)
    return plan


def packed_blocks(linear: Any) -> tuple[list[int] | None, list[int] | None]:
    """The sizes of the fused blocks (columns, rows) that a Linear carries."""
    return (getattr(linear, "_tp_packed_col_blocks", None), getattr(linear, "_tp_packed_row_blocks", None))


@contextmanager
def cpu_mesh() -> Iterator[None]:
    """Let diffusers' parallel code, which knows accelerators only, run on CPU ranks, and undo it after."""
    from unittest import mock

    import torch
    from diffusers.hooks import tensor_parallel

    with (
        mock.patch.object(tensor_parallel, "_SUPPORTED_TP_DEVICES", (*tensor_parallel._SUPPORTED_TP_DEVICES, "cpu")),
        mock.patch.object(torch._C, "_get_accelerator", lambda *_: torch.device("cpu")),  # noqa: PT008  # a plain function: torch.compile may trace it
        mock.patch.object(torch.accelerator, "device_count", lambda: 1),  # noqa: PT008  # as above
    ):
        yield
