"""Names of torch, diffusers and transformers that generated scripts and `planc run` call."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from planc.catalog.devices import DEVICES
from planc.commands import child


def test_device_mesh(torch: Any) -> None:
    """`DeviceMesh` takes a device type, the ranks and the axes' names."""
    from torch.distributed.device_mesh import DeviceMesh

    names = list(inspect.signature(DeviceMesh.__init__).parameters)
    assert names[1:3] == ["device_type", "mesh"]
    assert "mesh_dim_names" in names


def test_process_group(torch: Any) -> None:
    """`init_process_group` takes a backend, a timeout and a device; torch knows the devices' backends by name."""
    import torch.distributed as dist

    assert {"backend", "timeout", "device_id"} <= set(inspect.signature(dist.init_process_group).parameters)
    for name in ("cuda", "cpu"):
        assert dist.Backend.default_device_backend_map[name] == DEVICES[name].backend


def test_torchrun_flags(torch: Any) -> None:
    """torchrun starts the ranks of one machine with two flags, and leaves a script's options alone."""
    from torch.distributed import run

    options = run.get_args_parser().parse_args(["--standalone", "--nproc_per_node=2", "cpu2.py", "--prompt", "--seed"])
    assert options.standalone
    assert options.nproc_per_node == "2"
    assert (options.training_script, options.training_script_args) == ("cpu2.py", ["--prompt", "--seed"])


def test_torchrun_patience(torch: Any) -> None:
    """`planc run` waits longer for torchrun than torchrun for its ranks, so that torchrun can end them itself."""
    from torch.distributed.launcher.api import LaunchConfig

    patience = LaunchConfig(min_nodes=1, max_nodes=1, nproc_per_node=2).shutdown_timeout
    assert patience is not None
    assert patience < child.GRACE_SECONDS


@pytest.mark.parametrize("package", ["diffusers", "transformers"])
def test_logging(package: str, diffusers: Any) -> None:
    """Both packages have the switches with which the ranks behind the first are made quiet."""
    import importlib

    logging = importlib.import_module(f"{package}.utils.logging")
    for name in ("set_verbosity_error", "disable_progress_bar"):
        assert not inspect.signature(getattr(logging, name)).parameters
    assert callable(diffusers.DiffusionPipeline.set_progress_bar_config)


def test_compile(torch: Any, diffusers: Any) -> None:
    """Modules compile in place with the arguments that plans say, whole or by their repeated blocks."""
    taken = set(inspect.signature(torch.compile).parameters)
    assert {"backend", "fullgraph", "dynamic", "mode", "options"} <= taken
    for method in (torch.nn.Module.compile, diffusers.ModelMixin.compile_repeated_blocks):
        kinds = {item.kind for item in inspect.signature(method).parameters.values()}
        assert inspect.Parameter.VAR_KEYWORD in kinds, f"{method.__qualname__} does not pass its keywords on"
    assert "inductor" in torch.compiler.list_backends()


def test_repeated_blocks_are_required(diffusers: Any, torch: Any) -> None:
    """`compile_repeated_blocks` raises on a class that names no blocks: rule P504."""

    class Plain(diffusers.ModelMixin):  # type: ignore[misc]
        """A model that says nothing of its blocks."""

    with pytest.raises(ValueError, match="_repeated_blocks"):
        Plain().compile_repeated_blocks(backend="eager")


def test_cpu_generator_decides_the_latents(torch: Any, diffusers: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a CPU generator the noise is drawn on the CPU whatever the device: every device starts from the same."""
    from diffusers.utils.torch_utils import randn_tensor

    drawn_on = []
    draw = torch.randn

    def randn(*shape: Any, device: Any = None, **keywords: Any) -> Any:
        drawn_on.append(torch.device(device or "cpu").type)
        return draw(*shape, device=device, **keywords)

    monkeypatch.setattr(torch, "randn", randn)
    noise = [
        randn_tensor((2, 3), generator=torch.Generator().manual_seed(5), device=torch.device(device))
        for device in ("cpu", "meta")
    ]
    assert drawn_on == ["cpu", "cpu"]
    assert noise[1].device.type == "meta"
    assert torch.equal(noise[0], draw((2, 3), generator=torch.Generator().manual_seed(5)))
