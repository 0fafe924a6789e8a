"""A rank of `test_tp_plans.py`: lets diffusers apply plans to a tiny transformer, and measures what comes of it.

The job's file says which module holds TP_PLANS, and the cases: what to do, with which plan of it, what to change in
that plan, a config or a folder. Each rank writes what it saw beside the job: by case an error, or the largest
difference to the unsharded model over the root mean square of its output, the bytes of its shards, and a digest of the
weights it started from.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from diffusers import Flux2Transformer2DModel, TensorParallelConfig
from diffusers.hooks.tensor_parallel import PackedColwiseParallel, PackedRowwiseParallel
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor

from planc.verify import diffusers_api

BATCH, HEIGHT, WIDTH, TEXT_TOKENS = 2, 5, 7, 13
PACKED = {"packed_colwise": PackedColwiseParallel, "packed_rowwise": PackedRowwiseParallel}


def tp_plans(path: str) -> Mapping[str, Mapping[str, Mapping[str, Any]]]:
    """The TP_PLANS of a generated module."""
    spec = importlib.util.spec_from_file_location("tp_plan", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    plans: Mapping[str, Mapping[str, Mapping[str, Any]]] = module.TP_PLANS
    return plans


def changed(plan: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """The plan with other styles for some patterns; without those whose new style is null."""
    plan = dict(plan)
    for pattern, style in changes.items():
        assert pattern in plan, pattern
        if style is None:
            del plan[pattern]
        else:
            plan[pattern] = style if isinstance(style, str) else PACKED[style[0]](style[1])
    return plan


@contextmanager
def class_plan(plan: dict[str, Any]) -> Iterator[None]:
    """Make `plan` the class's own for a while."""
    own = Flux2Transformer2DModel._tp_plan
    Flux2Transformer2DModel._tp_plan = plan
    try:
        with diffusers_api.cpu_mesh():
            yield
    finally:
        Flux2Transformer2DModel._tp_plan = own


def build(config: Mapping[str, Any]) -> Any:
    """A transformer in float64 whose every layer keeps the size of its input, the same on each rank."""
    torch.manual_seed(0)
    model = Flux2Transformer2DModel(**config).double().eval()
    for parameter in model.parameters():
        if parameter.dim() == 1:
            torch.nn.init.normal_(parameter, mean=1.0, std=0.15)
        else:
            torch.nn.init.normal_(parameter, std=parameter.shape[1] ** -0.5)
    return model.requires_grad_(requires_grad=False)


def inputs(config: Mapping[str, Any]) -> dict[str, Any]:
    """Two different items of odd lengths."""
    generator = torch.Generator().manual_seed(1)

    def random(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    image_ids = torch.cartesian_prod(torch.arange(1), torch.arange(HEIGHT), torch.arange(WIDTH), torch.arange(1))
    text_ids = torch.cartesian_prod(torch.arange(1), torch.arange(1), torch.arange(1), torch.arange(TEXT_TOKENS))
    return {
        "hidden_states": random(BATCH, HEIGHT * WIDTH, config["in_channels"]),
        "encoder_hidden_states": random(BATCH, TEXT_TOKENS, config["joint_attention_dim"]),
        "timestep": torch.tensor([0.3, 0.7], dtype=torch.float64),
        "img_ids": image_ids.expand(BATCH, -1, -1),
        "txt_ids": text_ids.expand(BATCH, -1, -1),
        "guidance": torch.tensor([3.0, 4.0], dtype=torch.float64) if config["guidance_embeds"] else None,
        "return_dict": False,
    }


def shard_bytes(model: torch.nn.Module) -> int:
    """Bytes of this rank's pieces of the parameters that are cut."""
    cut = [item for item in model.parameters() if isinstance(item, DTensor) and item.placements[0].is_shard()]
    return sum(item.to_local().numel() * item.element_size() for item in cut)


def digest(model: torch.nn.Module) -> str:
    """A digest of every weight."""
    text = hashlib.sha256()
    for parameter in model.parameters():
        text.update(parameter.numpy().tobytes())
    return text.hexdigest()


@cache
def unsharded(config: str) -> tuple[torch.Tensor, str]:
    """The output of the transformer before it is cut, and the digest of its weights; the config as json."""
    model = build(json.loads(config))
    with torch.no_grad():
        return model(**inputs(json.loads(config)))[0], digest(model)


def in_memory(case: Mapping[str, Any], plan: dict[str, Any], mesh: DeviceMesh) -> dict[str, Any]:
    """Shard a transformer that is in memory, and compare its output with what it gives in one piece."""
    wanted, weights = unsharded(json.dumps(case["config"]))
    model = build(case["config"])
    with torch.no_grad(), class_plan(plan):
        try:
            model.enable_parallelism(config=TensorParallelConfig(mesh=mesh))
            output = model(**inputs(case["config"]))[0]
        except (ValueError, RuntimeError, AssertionError) as error:
            return {"error": f"{type(error).__name__}: {error}", "weights": weights}
    rms = wanted.square().mean().sqrt()
    return {
        "difference": float((output - wanted).abs().max() / rms),
        "rms": float(rms),
        "bytes": shard_bytes(model),
        "weights": weights,
    }


def effects(case: Mapping[str, Any], plan: dict[str, Any], mesh: DeviceMesh) -> dict[str, Any]:
    """By planned pattern, what the output differs by when one such weight moves by a hundredth; rank 0 alone looks."""
    model, given = build(case["config"]), inputs(case["config"])
    wanted, _ = unsharded(json.dumps(case["config"]))
    moved = {}
    with torch.no_grad():
        for pattern in plan if mesh.get_rank() == 0 else ():
            weight = model.get_submodule(pattern.replace("*", "0")).weight
            kept = weight.clone()
            weight.add_(torch.randn(weight.shape, generator=torch.Generator().manual_seed(2)) * kept.std() / 100)
            moved[pattern] = float((model(**given)[0] - wanted).abs().max() / wanted.square().mean().sqrt())
            weight.copy_(kept)
    return moved


def streamed(case: Mapping[str, Any], plan: dict[str, Any], mesh: DeviceMesh) -> dict[str, Any]:
    """Load a saved transformer as the generated scripts do: each rank reads its own slices."""
    with class_plan(plan):
        model = Flux2Transformer2DModel.from_pretrained(
            case["folder"],
            subfolder="transformer",
            dtype=getattr(torch, case["dtype"]),
            parallel_config=TensorParallelConfig(mesh=mesh),
        )
    return {"bytes": shard_bytes(model)}


KINDS = {"in memory": in_memory, "streamed": streamed, "effects": effects}


def main() -> None:
    """Run every case of the job, each rank at the same time."""
    path = Path(sys.argv[1])
    job = json.loads(path.read_text())
    dist.init_process_group("gloo", timeout=timedelta(seconds=40))
    rank = dist.get_rank()
    mesh = DeviceMesh("cpu", list(range(dist.get_world_size())), mesh_dim_names=("tp",))
    plans = tp_plans(job["tp_plan"])
    seen = {}
    for name, case in job["cases"].items():
        plan = changed(plans[case["target"]]["transformer"], case["changes"])
        seen[name] = KINDS[case["kind"]](case, plan, mesh)
        dist.barrier()
    path.with_suffix(f".{rank}.json").write_text(json.dumps(seen))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
