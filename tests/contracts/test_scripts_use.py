"""Names of torch, diffusers and transformers that generated scripts and `planc run` call."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
from typing import Any

import pytest

from planc.catalog import card
from planc.catalog.devices import DEVICES
from planc.commands import child
from planc.emit import plans
from planc.emit.script import STEPS_OF_TWO


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
    for name in ("cuda", "xpu", "cpu"):
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


def test_mesh_of_several_axes(torch: Any) -> None:
    """`init_device_mesh` takes a device type, the degrees and the axes' names."""
    from torch.distributed.device_mesh import init_device_mesh

    assert list(inspect.signature(init_device_mesh).parameters)[:2] == ["device_type", "mesh_shape"]
    assert "mesh_dim_names" in inspect.signature(init_device_mesh).parameters


def test_context_parallel_config(diffusers: Any) -> None:
    """`ContextParallelConfig` has the options of a plan, with the plan format's defaults, and takes a mesh."""
    from planc.spec import ContextParallel

    known = inspect.signature(diffusers.ContextParallelConfig).parameters
    ours = {item.name: item.default for item in dataclasses.fields(ContextParallel) if item.name not in ("at", "plan")}
    assert set(ours) | {"mesh"} == {name for name in known if not name.startswith("_")}
    assert all(known[name].default in (default, None) for name, default in ours.items())
    config = diffusers.ContextParallelConfig(ulysses_degree=2)
    assert (config.ring_degree, config.mesh_dim_names) == (1, ("ring", "ulysses"))


def test_context_parallel_plans(diffusers: Any) -> None:
    """The values of a context-parallel plan are classes that no package exports, with the names that planc writes."""
    module = importlib.import_module(plans.CP_MODULE)
    fields = {name: set(inspect.signature(getattr(module, name)).parameters) for name in plans.cp_classes()}
    assert fields == {
        "ContextParallelInput": {"split_dim", "expected_dims", "split_output"},
        "ContextParallelOutput": {"gather_dim", "expected_dims"},
    }
    assert not any(hasattr(diffusers, name) for name in fields), "diffusers exports them now: import them from there"


def test_enable_parallelism(diffusers: Any) -> None:
    """A model takes `config` and `cp_plan` together, and an attention backend by name."""
    assert set(inspect.signature(diffusers.ModelMixin.enable_parallelism).parameters) == {"self", "config", "cp_plan"}
    assert list(inspect.signature(diffusers.ModelMixin.set_attention_backend).parameters) == ["self", "backend"]


def test_parallelism_marks_the_model(diffusers: Any) -> None:
    """A model that is parallel already refuses more; the mark is `_parallel_config`, which a script takes back."""
    assert diffusers.ModelMixin._parallel_config is None
    model = diffusers.FluxTransformer2DModel(num_layers=0, num_single_layers=0, attention_head_dim=16)
    model._parallel_config = object()
    with pytest.raises(RuntimeError, match="already applied"):
        model.enable_parallelism(config=diffusers.ContextParallelConfig(ulysses_degree=2))


def test_exports_of_videos(diffusers: Any) -> None:
    """Videos are written from a list of frames, to a path, at a number of frames a second."""
    from diffusers.utils import export_to_gif, export_to_video

    assert list(inspect.signature(export_to_video).parameters)[:3] == ["video_frames", "output_video_path", "fps"]
    assert list(inspect.signature(export_to_gif).parameters) == ["image", "output_gif_path", "fps"]


def test_schedulers_are_diffusers_own(diffusers: Any) -> None:
    """The list of schedulers, and of what the config of each takes, is that of the installed diffusers."""
    from planc.catalog.schedulers import schedulers
    from planc.verify.schedulers import generate

    assert {name: sorted(keys) for name, keys in schedulers().items()} == generate()
    assert callable(diffusers.FlowMatchEulerDiscreteScheduler.from_config)


@pytest.mark.parametrize("shift", [1.0, 3.0, 5.0, 8.0, 12.0])
def test_two_denoisers_take_turns_in_a_warm_up(shift: float, diffusers: Any) -> None:
    """In the steps of a warm-up Wan 2.2's schedule crosses its boundary, however it is shifted; in one it does not."""
    scheduler = diffusers.UniPCMultistepScheduler(
        prediction_type="flow_prediction", use_flow_sigmas=True, flow_shift=shift
    )
    released = card.load("WanTransformer3DModel").facts.checkpoints["Wan-AI/Wan2.2-T2V-A14B-Diffusers"]
    boundary = released.pipeline_config["boundary_ratio"] * scheduler.config.num_train_timesteps
    scheduler.set_timesteps(STEPS_OF_TWO)
    assert scheduler.timesteps[0] >= boundary > scheduler.timesteps[-1]
    scheduler.set_timesteps(1)
    assert scheduler.timesteps[-1] >= boundary
