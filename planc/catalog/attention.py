"""The attention backends of diffusers 0.42.1: what each can do, as `models/attention_dispatch.py` writes it.

`tests/contracts/test_attention.py` holds every row against the installed diffusers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

DEFAULT = "native"
"""The backend of a model for which none was set."""
HALF = ("bfloat16", "float16")
EVERY = ("bfloat16", "float16", "float32")
CUDA = ("cuda",)


@dataclass(frozen=True, kw_only=True)
class AttentionBackend:
    """What one attention backend can do."""

    name: str
    """The plan's word, and diffusers'."""
    splits_context: bool = False
    """Whether diffusers registers it for context parallelism."""
    returns_lse: bool = False
    """Whether its context-parallel operation returns the log-sum-exp, by which ring attention merges partial results."""
    takes_mask: bool = False
    """Whether it takes an attention mask."""
    dtypes: tuple[str, ...] = EVERY
    """Data types that it takes."""
    devices: tuple[str, ...] | None = None
    """Devices of the plan format that it runs on; None: nothing was seen that ties it to one."""
    lacks_split_on: tuple[str, ...] = ()
    """Devices on which it runs, but without the operation that context parallelism calls."""
    takes_every_dtype_on: tuple[str, ...] = ()
    """Devices on which `dtypes` does not hold it back."""
    is_hub_kernel: bool = False
    """Whether its kernel is fetched from the hub, with the `kernels` package."""

    def runs_on(self, device: str) -> bool:
        """Whether nothing ties it to other devices."""
        return self.devices is None or device in self.devices

    def takes_dtype(self, dtype: str, device: str) -> bool:
        """Whether it takes this data type there."""
        return dtype in self.dtypes or device in self.takes_every_dtype_on

    def splits_on(self, device: str) -> bool:
        """Whether context parallelism can use it there."""
        return self.splits_context and self.runs_on(device) and device not in self.lacks_split_on


_ROWS = (
    # flash-attn and its kernels are built for CUDA; kernels-community/flash-attn2 has a build for XPU too (torch 2.8).
    AttentionBackend(name="flash", splits_context=True, returns_lse=True, dtypes=HALF, devices=CUDA),
    AttentionBackend(
        name="flash_hub",
        splits_context=True,
        returns_lse=True,
        dtypes=HALF,
        devices=("cuda", "xpu"),
        is_hub_kernel=True,
    ),
    AttentionBackend(name="flash_varlen", takes_mask=True, dtypes=HALF, devices=CUDA),
    AttentionBackend(
        name="flash_varlen_hub",
        splits_context=True,
        returns_lse=True,
        takes_mask=True,
        dtypes=HALF,
        devices=("cuda", "xpu"),
        is_hub_kernel=True,
    ),
    AttentionBackend(name="flash_4_hub", dtypes=HALF, devices=CUDA, is_hub_kernel=True),
    AttentionBackend(name="_flash_3", dtypes=HALF, devices=CUDA),
    AttentionBackend(name="_flash_varlen_3", takes_mask=True, dtypes=HALF, devices=CUDA),
    AttentionBackend(
        name="_flash_3_hub", splits_context=True, returns_lse=True, dtypes=HALF, devices=CUDA, is_hub_kernel=True
    ),
    AttentionBackend(
        name="_flash_3_varlen_hub",
        splits_context=True,
        returns_lse=True,
        takes_mask=True,
        dtypes=HALF,
        devices=CUDA,
        is_hub_kernel=True,
    ),
    AttentionBackend(name="aiter_fa2_hub", dtypes=("bfloat16",), devices=CUDA, is_hub_kernel=True),
    AttentionBackend(name="flex", takes_mask=True),
    AttentionBackend(name="native", splits_context=True, takes_mask=True),
    # Neither has a CPU kernel: torch 2.13, "No viable backend for scaled_dot_product_attention was found".
    AttentionBackend(
        name="_native_cudnn", splits_context=True, returns_lse=True, takes_mask=True, dtypes=HALF, devices=CUDA
    ),
    AttentionBackend(name="_native_efficient", takes_mask=True, devices=("cuda", "xpu", "neuron", "tpu")),
    # Context parallelism calls aten::_scaled_dot_product_flash_attention, which has no CPU kernel in torch 2.13;
    # without it, torch's own dispatch finds a CPU kernel, which takes float32 too.
    AttentionBackend(
        name="_native_flash",
        splits_context=True,
        returns_lse=True,
        dtypes=HALF,
        lacks_split_on=("cpu",),
        takes_every_dtype_on=("cpu",),
    ),
    AttentionBackend(name="_native_math", takes_mask=True),
    # Ascend's torch_npu and torch_xla: no device of the plan format runs them.
    AttentionBackend(name="_native_npu", splits_context=True, takes_mask=True, dtypes=HALF, devices=()),
    AttentionBackend(name="_native_xla", devices=()),
    AttentionBackend(name="sage", splits_context=True, returns_lse=True, dtypes=HALF, devices=CUDA),
    AttentionBackend(
        name="sage_hub", splits_context=True, returns_lse=True, dtypes=HALF, devices=CUDA, is_hub_kernel=True
    ),
    AttentionBackend(name="sage_blackwell_hub", dtypes=HALF, devices=CUDA, is_hub_kernel=True),
    AttentionBackend(name="sage_varlen", takes_mask=True, dtypes=HALF, devices=CUDA),
    AttentionBackend(name="_sage_qk_int8_pv_fp8_cuda", devices=CUDA),
    AttentionBackend(name="_sage_qk_int8_pv_fp8_cuda_sm90", devices=CUDA),
    AttentionBackend(name="_sage_qk_int8_pv_fp16_cuda", devices=CUDA),
    AttentionBackend(name="_sage_qk_int8_pv_fp16_triton", devices=CUDA),
    AttentionBackend(name="xformers", takes_mask=True, devices=CUDA),
)

BACKENDS: Mapping[str, AttentionBackend] = MappingProxyType({row.name: row for row in _ROWS})
"""The backends that `set_attention_backend` knows."""


def fitting(
    device: str, dtype: str, *, splits: bool = False, with_lse: bool = False, with_mask: bool = False
) -> list[str]:
    """Backends that run on a device with a data type and can do what is asked; torch's own first, hub kernels last."""
    fit = [
        row
        for row in _ROWS
        if row.runs_on(device)
        and row.takes_dtype(dtype, device)
        and (row.splits_on(device) or not splits)
        and (row.returns_lse or not with_lse)
        and (row.takes_mask or not with_mask)
    ]
    return [row.name for row in sorted(fit, key=lambda row: (row.is_hub_kernel, "native" not in row.name))]
