"""Attention backends in diffusers: what the catalogue says of each, read from the registry and from running them."""

from __future__ import annotations

import ast
import inspect
import textwrap
from typing import Any

import pytest

from planc.catalog.attention import BACKENDS, DEFAULT, AttentionBackend

HALF_CHECKS = {
    "_check_qkv_dtype_bf16_or_fp16": ("bfloat16", "float16"),
    "_check_qkv_dtype_bf16": ("bfloat16",),
}
"""diffusers' checks of data types, and what they let through."""


@pytest.fixture
def dispatch(diffusers: Any) -> Any:
    """The module that registers the backends."""
    from diffusers.models import attention_dispatch

    return attention_dispatch


@pytest.fixture
def registry(dispatch: Any) -> Any:
    """The registry."""
    return dispatch._AttentionBackendRegistry


def function_of(registry: Any, row: AttentionBackend) -> Any:
    """What diffusers calls for a backend."""
    return {name.value: function for name, function in registry._backends.items()}[row.name]


def parsed(function: Any) -> ast.Module:
    """The function's source."""
    return ast.parse(textwrap.dedent(inspect.getsource(function)))


def raises(function: Any, name: str) -> bool:
    """Whether the function raises, first of all, where the argument `name` is given."""
    for node in ast.walk(parsed(function)):
        if not (isinstance(node, ast.If) and isinstance(node.body[0], ast.Raise)):
            continue
        if ast.unparse(node.test) in (name, f"{name} is not None"):
            return True
    return False


def forward_op(dispatch: Any, function: Any) -> Any:
    """The operation that a backend hands to context parallelism; None where it hands none."""
    names = {
        node.id for node in ast.walk(parsed(function)) if isinstance(node, ast.Name) and node.id.endswith("_forward_op")
    }
    assert len(names) <= 1
    return getattr(dispatch, names.pop()) if names else None


def test_the_catalogue_has_exactly_the_backends_of_diffusers(registry: Any, dispatch: Any) -> None:
    """Every registered backend has a row, every row is a backend, and the default is diffusers' own."""
    assert set(BACKENDS) == {name.value for name in registry._backends}
    assert set(BACKENDS) == {name.value for name in dispatch.AttentionBackendName}
    assert registry._active_backend.value == DEFAULT


def test_backends_for_context_parallelism_are_those_that_diffusers_registers(registry: Any) -> None:
    """`splits_context` is the registry's own word."""
    assert {name for name, row in BACKENDS.items() if row.splits_context} == registry._supports_context_parallel


def test_hub_kernels_are_those_that_diffusers_fetches(dispatch: Any) -> None:
    """`is_hub_kernel` is the table of kernels."""
    assert {name for name, row in BACKENDS.items() if row.is_hub_kernel} == {
        name.value for name in dispatch._HUB_KERNELS_REGISTRY
    }


@pytest.mark.parametrize("row", BACKENDS.values(), ids=BACKENDS)
def test_data_types_and_devices_are_those_that_diffusers_checks(registry: Any, row: AttentionBackend) -> None:
    """A check of half precision or of CUDA is in the row."""
    checks = {name.value: found for name, found in registry._constraints.items()}[row.name]
    names = [check.__qualname__.partition(".")[0] for check in checks]
    wanted = next((kinds for name, kinds in HALF_CHECKS.items() if name in names), None)
    assert row.dtypes == (wanted or ("bfloat16", "float16", "float32"))
    if any(name.startswith("_check_device_cuda") for name in names):
        assert row.devices == ("cuda",)


@pytest.mark.parametrize("row", BACKENDS.values(), ids=BACKENDS)
def test_backends_that_take_a_mask_do_not_raise_on_one(registry: Any, dispatch: Any, row: AttentionBackend) -> None:
    """A backend without `takes_mask` refuses one; a backend with it reads it, also under context parallelism."""
    function = function_of(registry, row)
    if not row.takes_mask:
        assert raises(function, "attn_mask")
        return
    assert not raises(function, "attn_mask")
    reads = [node.id for node in ast.walk(parsed(function)) if isinstance(node, ast.Name)]
    assert reads.count("attn_mask") > 0
    if row.splits_context:
        assert not raises(forward_op(dispatch, function), "attn_mask")


@pytest.mark.parametrize("row", [row for row in BACKENDS.values() if row.splits_context], ids=lambda row: row.name)
def test_ring_attention_needs_an_operation_that_returns_the_log_sum_exp(
    registry: Any, dispatch: Any, row: AttentionBackend
) -> None:
    """An operation without `returns_lse` raises when asked for it; one with it returns it."""
    operation = forward_op(dispatch, function_of(registry, row))
    assert raises(operation, "return_lse") is not row.returns_lse
    returned = [node.value for node in ast.walk(parsed(operation)) if isinstance(node, ast.Return) and node.value]
    names = {node.id for value in returned for node in ast.walk(value) if isinstance(node, ast.Name)}
    assert bool({"lse", "lse_sp"} & names) is row.returns_lse


@pytest.mark.filterwarnings("ignore:flex_attention called without")
@pytest.mark.parametrize("row", BACKENDS.values(), ids=BACKENDS)
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_backends_that_say_cpu_run_there(torch: Any, registry: Any, row: AttentionBackend, dtype: str) -> None:
    """On this machine a backend computes attention exactly where its row lets the cpu and the data type through."""
    query = torch.randn(1, 8, 2, 64, dtype=getattr(torch, dtype))
    function = function_of(registry, row)
    if row.runs_on("cpu") and row.takes_dtype(dtype, "cpu"):
        assert function(query, query, query).shape == query.shape
    elif not row.runs_on("cpu"):
        with pytest.raises((RuntimeError, TypeError, AttributeError)):
            function(query, query, query)


def test_context_parallelism_has_no_flash_kernel_on_the_cpu(torch: Any) -> None:
    """The operation that `_native_flash` calls for context parallelism does not exist on the cpu."""
    query = torch.randn(1, 2, 8, 64)
    assert BACKENDS["_native_flash"].lacks_split_on == ("cpu",)
    with pytest.raises(NotImplementedError, match="_scaled_dot_product_flash_attention"):
        torch.ops.aten._scaled_dot_product_flash_attention(query, query, query)


def test_setting_a_backend_ignores_case(diffusers: Any) -> None:
    """`set_attention_backend` lowers its argument, as the rules do."""
    model = diffusers.FluxTransformer2DModel
    assert "backend = backend.lower()" in inspect.getsource(model.set_attention_backend)


def test_padding_of_heads_is_bounded_as_the_rules_say(dispatch: Any) -> None:
    """`ulysses_anything` pads heads only while the padding is smaller than a rank's heads."""
    source = inspect.getsource(dispatch._maybe_pad_qkv_head)
    assert "H_PAD = world_size - (H % world_size)" in source
    assert "assert H_PAD < NEW_H_LOCAL" in source


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"ring_degree": 2, "rotate_method": "alltoall"},
        {"ring_degree": 2, "ulysses_anything": True},
        {"ulysses_degree": 2, "ring_anything": True},
        {"ulysses_degree": 2, "ring_degree": 2, "ulysses_anything": True},
        {"ulysses_degree": 2, "ring_degree": 2, "ring_anything": True},
    ],
)
def test_the_config_refuses_what_the_rules_refuse(diffusers: Any, options: dict[str, Any]) -> None:
    """`ContextParallelConfig` raises on degrees and options that P401 reports."""
    with pytest.raises((ValueError, NotImplementedError)):
        diffusers.ContextParallelConfig(**options)


def test_a_tensor_of_other_dims_is_left_whole(diffusers: Any) -> None:
    """A dim count that differs leaves a tensor whole, with a warning only: what P405 is about."""
    from diffusers.hooks import context_parallel

    assert "split will not be applied" in inspect.getsource(context_parallel.ContextParallelSplitHook)
