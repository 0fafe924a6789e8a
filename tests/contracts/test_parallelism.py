"""Tensor parallelism in diffusers: the names, places and refusals that planc and its scripts rely on."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from planc.catalog import card, sharding
from planc.verify import diffusers_api

NAME = "Flux2Transformer2DModel"
CARD = card.load(NAME)
FF = "transformer_blocks.*.ff"
PATCHED = {
    ("tensor_parallel", "_SUPPORTED_TP_DEVICES"),
    ("torch._C", "_get_accelerator"),
    ("torch.accelerator", "device_count"),
}
"""What must be changed for diffusers' parallel code to run on a CPU mesh (diffusers 0.42.1, torch 2.13.0)."""


@pytest.fixture
def mesh(torch: Any) -> Iterator[Any]:
    """A mesh of this process alone."""
    import torch.distributed as dist
    from torch.distributed.device_mesh import DeviceMesh

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield DeviceMesh("cpu", [0], mesh_dim_names=("tp",))
    dist.destroy_process_group()


@pytest.fixture
def load(diffusers: Any, torch: Any, mesh: Any, tiny_klein: Path) -> Callable[[], Any]:
    """Load the tiny transformer as a generated script does."""

    def run() -> Any:
        return getattr(diffusers, NAME).from_pretrained(
            str(tiny_klein),
            subfolder="transformer",
            dtype=torch.bfloat16,
            parallel_config=diffusers.TensorParallelConfig(mesh=mesh),
        )

    return run


def sharded(model: Any) -> set[str]:
    """Names of the parameters that are cut over a mesh."""
    from torch.distributed.tensor import DTensor

    return {name for name, item in model.named_parameters() if isinstance(item, DTensor)}


def test_loads_sharded(load: Callable[[], Any], torch: Any) -> None:
    """`from_pretrained` takes a data type and a mesh, and gives every planned weight as a slice."""
    with diffusers_api.cpu_mesh():
        model = load()
    cut = sharded(model)
    for entry in CARD.inventory.tp_plan:
        assert entry.pattern.replace("*", "0") + ".weight" in cut, f"{entry.pattern} was not cut"
    assert {item.dtype for item in model.parameters()} == {torch.bfloat16}


def test_reads_the_class_attribute(load: Callable[[], Any], diffusers: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The plan is read from the class when a model is loaded: how a script says a written-out plan."""
    monkeypatch.setattr(getattr(diffusers, NAME), "_tp_plan", {"transformer_blocks.*.attn.to_q": "colwise"})
    with diffusers_api.cpu_mesh():
        cut = sharded(load())
    assert cut == {
        f"transformer_blocks.{index}.attn.to_q.weight" for index in range(CARD.facts.tiny.config["num_layers"])
    }


def test_takes_no_plan_as_an_argument(diffusers: Any) -> None:
    """Neither the config nor `enable_parallelism` takes a tensor-parallel plan, so scripts set the class attribute."""
    assert "mesh" in inspect.signature(diffusers.TensorParallelConfig).parameters
    for callable_ in (diffusers.TensorParallelConfig, diffusers.ModelMixin.enable_parallelism):
        assert "tp_plan" not in inspect.signature(callable_).parameters, "diffusers takes a plan as an argument now"


def test_packed_styles(diffusers: Any) -> None:
    """The packed styles are importable from where generated scripts import them, and take their blocks first."""
    from diffusers.hooks import tensor_parallel

    for name in ("PackedColwiseParallel", "PackedRowwiseParallel"):
        style = getattr(tensor_parallel, name)
        assert style([1, 2]).blocks == [1, 2]
        assert style().blocks is None
    assert callable(diffusers.hooks.apply_tensor_parallel)


def test_refuses_a_cpu_mesh(load: Callable[[], Any]) -> None:
    """Without the patches diffusers refuses a CPU mesh; where this fails, the patches can go."""
    with pytest.raises((ValueError, ZeroDivisionError, RuntimeError)):
        load()


def test_patches_are_undone(torch: Any, diffusers: Any) -> None:
    """The patches hold in their block only, and each of the three names exists."""
    from diffusers.hooks import tensor_parallel

    places = {"tensor_parallel": tensor_parallel, "torch._C": torch._C, "torch.accelerator": torch.accelerator}
    before = {(place, name): getattr(places[place], name) for place, name in PATCHED}
    with diffusers_api.cpu_mesh():
        assert "cpu" in tensor_parallel._SUPPORTED_TP_DEVICES
        assert torch._C._get_accelerator().type == "cpu"
        assert torch.accelerator.device_count() == 1
        assert all(getattr(places[place], name) is not item for (place, name), item in before.items())
    assert all(getattr(places[place], name) is item for (place, name), item in before.items())


def patched_by_script(source: str) -> set[tuple[str, str]]:
    """The attributes of modules that a source assigns to; the modules by their own names where they have others."""
    found, own_names = set(), {}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.AnnAssign) and node.value is not None:
            own_names[ast.unparse(node.target)] = ast.unparse(node.value)
        targets = node.targets if isinstance(node, ast.Assign) else []
        targets += [node.target] if isinstance(node, ast.AugAssign) else []
        found |= {(ast.unparse(item.value), item.attr) for item in targets if isinstance(item, ast.Attribute)}
    return {(own_names.get(module, module), name) for module, name in found}


def patched_by_mock(source: str) -> set[tuple[str, str]]:
    """The attributes of modules that a source replaces by `mock.patch.object`."""
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    patches = [node for node in calls if ast.unparse(node.func) == "mock.patch.object"]
    return {(ast.unparse(node.args[0]), ast.literal_eval(node.args[1])) for node in patches}


def test_both_places_patch_the_same(root: Path) -> None:
    """The partial of generated cpu scripts and `verify.diffusers_api` change the same three names."""
    partial = (root / "templates" / "cpu_mesh.py.j2").read_text(encoding="utf-8")
    assert patched_by_script(partial) == PATCHED
    assert patched_by_mock(textwrap.dedent(inspect.getsource(diffusers_api.cpu_mesh))) == PATCHED
    for script in ("flux2/cpu.py", "flux2_dev/cpu.py"):
        function = next(
            node
            for node in ast.parse((root / "generated" / script).read_text(encoding="utf-8")).body
            if isinstance(node, ast.FunctionDef) and node.name == "allow_cpu_mesh"
        )
        assert patched_by_script(ast.unparse(function)) == PATCHED


def test_attributes_of_packed_linears(on_meta: Callable[..., Any]) -> None:
    """Linears that fuse several projections carry their blocks in the attributes that planc names."""
    model = on_meta(NAME, CARD.facts.tiny.config)
    for linear in CARD.inventory.linears:
        module = model.get_submodule(linear.pattern.replace("*", "0")) if "guidance" not in linear.pattern else None
        if module is None:
            continue
        for style, blocks in (("packed_colwise", linear.col_blocks), ("packed_rowwise", linear.row_blocks)):
            assert hasattr(module, sharding.ATTRIBUTE[style]) is (blocks is not None), f"{linear.pattern}: {style}"


REFUSED = {
    "P302 a block that the degree does not divide": ({"x_embedder": "rowwise"}, 5, ValueError, "not divisible by 5"),
    "P303 a pattern that names nothing": ({"transformer_blocks.*.attn.to_qq": "colwise"}, 2, AttributeError, "to_qq"),
    "P304 two wildcards": ({"transformer_blocks.*.attn.*": "colwise"}, 2, ValueError, "only be used once"),
    "P304 no ModuleList": ({"x_embedder.*": "colwise"}, 2, ValueError, "must expand over a `ModuleList`"),
    "P305 a packed style without blocks": (
        {f"{FF}.linear_in": {"packed_colwise": None}},
        2,
        ValueError,
        "has no blocks",
    ),
    "P305 blocks that do not fit": ({f"{FF}.linear_in": {"packed_colwise": [5, 6]}}, 2, ValueError, "does not divide"),
    "a style of another name": ({"x_embedder": "colwise_gathered"}, 2, ValueError, "Unsupported tensor-parallel style"),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_refuses_what_the_rules_refuse(
    case: tuple[dict[str, Any], int, type[Exception], str], on_meta: Callable[..., Any]
) -> None:
    """diffusers raises on the plans that planc's rules refuse, so that the rules forbid nothing that would run."""
    from diffusers.hooks import tensor_parallel

    plan, degree, error, message = case
    packed = {
        pattern: tensor_parallel.PackedColwiseParallel(style["packed_colwise"])
        for pattern, style in plan.items()
        if isinstance(style, dict)
    }
    model = on_meta(NAME, CARD.facts.tiny.config)
    with pytest.raises(error, match=message):
        tensor_parallel.resolve_tp_shard_specs(model, plan | packed, degree)


def test_refuses_indivisible_heads(diffusers: Any) -> None:
    """diffusers refuses a degree that does not divide the heads, and finds them where the card does: rule P301."""
    from diffusers.hooks import tensor_parallel

    config = diffusers.TensorParallelConfig(tp_degree=3)
    with pytest.raises(ValueError, match="must divide the number of attention heads"):
        tensor_parallel._check_tp_supported(NAME, {}, 8, config)
    assert CARD.facts.heads in inspect.signature(getattr(diffusers, NAME).__init__).parameters
    assert f'"{CARD.facts.heads}"' in inspect.getsource(diffusers.ModelMixin.enable_parallelism)
