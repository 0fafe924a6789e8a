"""One row of facts a device: what a script writes for it. No other module branches on a device's name.

Never run on its hardware by planc's own tests: all but cpu.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, kw_only=True)
class Device:
    """What a generated script says for one kind of device."""

    name: str
    """The plan's word, and torch's device type."""
    unit: str
    """What one rank runs on, for people."""
    backend: str
    """Backend of the process group."""
    compile_backend: str
    """Backend of `torch.compile`."""
    cache_variable: str
    """Environment variable that names the folder of compiled graphs; empty where none is known."""
    lnc_variable: str
    """Environment variable of the physical cores a logical core; empty where there is no such thing."""
    caches_eager: bool
    """Whether eager mode compiles too, op by op, so that a warm-up and the cache serve it as well."""
    autoload_module: str
    """Module that registers the device where torch does not load it itself; empty for torch's own devices."""
    device: str
    """Expression: the device of a single process."""
    rank_device: str
    """Expression: the device of this rank."""
    rank_setup: str
    """Statement that makes the rank's device current; empty where none is needed."""
    synchronize: str
    """Statement that waits for the device; empty where work is synchronous."""
    peak_memory: str
    """Expression: peak memory in bytes."""
    peak_memory_of: str
    """Whose memory that is."""
    needs_host_mesh_patches: bool
    """Whether diffusers' parallel code must be told that this device may form a mesh."""
    refuses_dynamic: bool
    """Whether compiling with `dynamic=True` is refused."""
    refuses_mode: bool
    """Whether the compile backend takes no mode and no options."""
    loses_cache: bool
    """Whether the default folder of compiled graphs is temporary, and a compile too dear to repeat after a reboot."""
    source: str
    """Where these facts were seen."""


_UNDECLARED = "  # type: ignore[attr-defined]"
_HOST_PEAK = "resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024  # Linux counts KiB"

VOLATILE_FOLDERS = ("/tmp", "/var/tmp", "/dev/shm", "/run", "/var/run")  # noqa: S108  # names to warn of
"""Folders that a reboot may empty (Filesystem Hierarchy Standard 3.0; systemd's tmpfiles for /var/tmp)."""

_ROWS = (
    Device(
        name="neuron",
        unit="NeuronCore",
        backend="neuron",
        compile_backend="neuron",
        cache_variable="TORCH_NEURONX_NEFF_CACHE_DIR",
        lnc_variable="NEURON_LOGICAL_NC_CONFIG",
        caches_eager=True,
        autoload_module="torch_neuronx",
        device="torch.neuron.current_device()" + _UNDECLARED,
        rank_device="torch.neuron.current_device()" + _UNDECLARED,
        rank_setup="",
        synchronize="torch.neuron.synchronize()" + _UNDECLARED,
        # TorchNeuron's memory queries were not seen documented: UNCONFIRMED, so the host's peak is what is printed.
        peak_memory=_HOST_PEAK,
        peak_memory_of="host",
        needs_host_mesh_patches=False,
        refuses_dynamic=True,
        refuses_mode=True,
        loses_cache=True,
        source="diffusers PR #13289 and #13718; awsdocs-neuron torch/compile/reference-torch-compile (2026-10-14)",
    ),
    Device(
        name="cuda",
        unit="GPU",
        backend="nccl",
        compile_backend="inductor",
        cache_variable="TORCHINDUCTOR_CACHE_DIR",
        lnc_variable="",
        caches_eager=False,
        autoload_module="",
        device='torch.device("cuda")',
        rank_device='torch.device("cuda", int(os.environ["LOCAL_RANK"]))',
        rank_setup="torch.cuda.set_device(device)",
        synchronize="torch.cuda.synchronize()",
        peak_memory="torch.cuda.max_memory_allocated()",
        peak_memory_of="GPU",
        needs_host_mesh_patches=False,
        refuses_dynamic=False,
        refuses_mode=False,
        loses_cache=False,
        source="diffusers docs, training/distributed_inference (58eb52c08); torch 2.13 torch.cuda",
    ),
    Device(
        name="xpu",
        unit="XPU",
        backend="xccl",
        compile_backend="inductor",
        cache_variable="TORCHINDUCTOR_CACHE_DIR",
        lnc_variable="",
        caches_eager=False,
        autoload_module="",
        device='torch.device("xpu")',
        rank_device='torch.device("xpu", int(os.environ["LOCAL_RANK"]))',
        rank_setup="torch.xpu.set_device(device)",
        synchronize="torch.xpu.synchronize()",
        peak_memory="torch.xpu.max_memory_allocated()",
        peak_memory_of="XPU",
        needs_host_mesh_patches=False,
        refuses_dynamic=False,
        refuses_mode=False,
        loses_cache=False,
        source="torch 2.13 torch.xpu and torch.distributed (xccl is the backend for xpu)",
    ),
    Device(
        name="tpu",
        unit="TPU chip",
        backend="tpu_dist",
        compile_backend="tpu",
        # No variable of TorchTPU's compilation cache was seen documented.
        cache_variable="",
        lnc_variable="",
        caches_eager=False,
        autoload_module="torch_tpu",
        device='torch.device("tpu")',
        rank_device='torch.device("tpu")',
        rank_setup="",
        synchronize="torch.tpu.synchronize()" + _UNDECLARED,
        # TorchTPU's memory queries are private: the host's peak is what is printed.
        peak_memory=_HOST_PEAK,
        peak_memory_of="host",
        needs_host_mesh_patches=False,
        refuses_dynamic=True,
        refuses_mode=True,
        loses_cache=False,
        source="diffusers PR #14039 and hooks/tensor_parallel.py 0.42.1; google-pytorch/torch_tpu (2026) for tpu_dist and torch.tpu; tritonbench PR #1148: dynamic=False, no mode, no options",
    ),
    Device(
        name="cpu",
        unit="process",
        backend="gloo",
        compile_backend="inductor",
        cache_variable="TORCHINDUCTOR_CACHE_DIR",
        lnc_variable="",
        caches_eager=False,
        autoload_module="",
        device='torch.device("cpu")',
        rank_device='torch.device("cpu")',
        rank_setup="",
        synchronize="",
        peak_memory=_HOST_PEAK,
        peak_memory_of="host",
        needs_host_mesh_patches=True,
        refuses_dynamic=False,
        refuses_mode=False,
        loses_cache=False,
        source="run here with torch 2.13.0 and diffusers 0.42.1",
    ),
)

DEVICES: Mapping[str, Device] = MappingProxyType({row.name: row for row in _ROWS})
"""The devices that planc writes scripts for."""
