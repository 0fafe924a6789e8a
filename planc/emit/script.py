"""One target → the context of its script."""

from __future__ import annotations

import keyword
import textwrap
from typing import Any

from planc.catalog.devices import DEVICES, Device
from planc.emit import parallel, plans
from planc.emit.call import call_keywords, option, shape, shape_option, spread_shape
from planc.emit.context import Constant, ScriptContext
from planc.emit.encode import encode_context, image_size_import
from planc.emit.literal import WIDTH, Name, assignment, call, literal
from planc.ir import Compile, Program, TargetProgram

STEPS_OF_TWO = 4
"""Steps in which two denoisers have their turn: the last of n is at s / (n + s - 1) of the noise where the schedule is
shifted by s, below Wan 2.2's boundary of 0.875 for any s up to 21 (diffusers 0.42.1, WanPipeline)."""
_FILE_TYPES = {"images": (".png", ".jpg", ".webp", ".npy"), "frames": (".mp4", ".gif", ".npy")}
"""Endings of what a script can write, the default first."""


def script_context(program: Program, target: TargetProgram) -> ScriptContext:
    """Everything that the script of `target` says."""
    row = DEVICES[target.device]
    world_size = target.launch.world_size if target.is_parallel else 0
    torchrun = f"torchrun --standalone --nproc_per_node={world_size} {target.module}.py"
    command = torchrun if target.is_parallel else f"python {target.module}.py"
    source = _source(target)
    is_static = target.is_static
    makes_video, file_types = target.output == "frames", _FILE_TYPES[target.output]
    return ScriptContext(
        title=_title(target, row),
        target=target.name,
        plan_file=program.file_name,
        command=f'{command} --prompt "a lighthouse at dusk"{_required(target)}',
        fail_without_ranks=call("fail", [literal(f"start one process a rank: {torchrun}")], indent=8),
        remarks=tuple(_remarks(target, row)),
        stdlib_imports=_stdlib_imports(target, row),
        environment=tuple(
            call("os.environ.setdefault", [literal(name), literal(value)], indent=0)
            for name, value in target.launch.env
        ),
        imports=_imports(target, row),
        autoload_module=row.autoload_module,
        checkpoint=assignment("CHECKPOINT", target.model.checkpoint),
        source=assignment("SOURCE: dict[str, Any]", source) if source else "",
        world_size=world_size,
        is_static=is_static,
        shapes=literal([shape(target, index) for index in range(len(target.shapes))], is_exploded=True),
        plans=_plans(target),
        prompt=next((literal(item.value, indent=8) for item in target.call if item.name == "prompt"), ""),
        options=tuple(option(item) for item in target.call if item.name != "prompt"),
        call_keywords=tuple(call_keywords(target)),
        spread_shape=spread_shape(target),
        images=tuple(item.name for item in target.call if item.kind == "image"),
        fits_image=target.fits_image,
        makes_video=makes_video,
        kind="video" if makes_video else "image",
        made="videos" if makes_video else "images",
        save_arguments=", args.fps" if makes_video else "",
        fps=target.fps or 0,
        file_types=literal(file_types),
        results=target.output,
        seed=call("parser.add_argument", ['"--seed"', "type=int", f"default={literal(target.seed)}"], indent=4),
        dtype=literal(target.model.dtype),
        output=call("default=Path", [literal(f"{program.name}-{target.name}{file_types[0]}")], indent=8),
        patches_host_mesh=target.is_parallel and row.needs_host_mesh_patches,
        pipeline=target.model.pipeline,
        transformer=target.model.transformer,
        download=call(
            f"{target.model.pipeline}.download",
            ["checkpoint", *(["**source(checkpoint)"] if source else [])],
            indent=8,
        ),
        mesh_parameter=", mesh: DeviceMesh" if target.is_parallel else "",
        mesh=parallel.mesh_call(target) if target.is_parallel else "",
        tp_mesh=parallel.tp_mesh(target),
        sequence=parallel.sequence(target),
        scheduler=_scheduler(target),
        denoisers=parallel.sharded_denoisers(target),
        pipeline_dtype=_pipeline_dtype(target),
        placement=tuple(_placement(target)),
        casts_decode=any(part.role == "vae" and part.dtype != target.model.dtype for part in target.components),
        encode=encode_context(target),
        spread_source="**source(args.checkpoint)" if source else "",
        shape_options=tuple(shape_option(key) for key in shape(target, 0)),
        pipe_parameter="pipe: Any, " if target.text.is_encoded_first else "",
        pipe_argument="pipe, " if target.text.is_encoded_first else "",
        synchronize=row.synchronize,
        verbs="compile, warm up, run" if is_static else "run",
        init_process_group=_init_process_group(target, row),
        device=row.rank_device if target.is_parallel else row.device,
        rank_setup=row.rank_setup if target.is_parallel else "",
        compile_calls=tuple(_compile_call(part) for part in target.compile),
        is_warmed_up=is_static or bool(target.compile) or row.caches_eager,
        warm_up_keywords=_warm_up_keywords(target),
        warm_up_reason=_warm_up_reason(target),
        peak_memory=row.peak_memory,
        peak_memory_of=row.peak_memory_of,
    )


def _required(target: TargetProgram) -> str:
    """Options that the plan leaves to whoever runs the script."""
    return "".join(f" --{item.name.replace('_', '-')} photo.jpg" for item in target.call if item.value is None)


def _title(target: TargetProgram, row: Device) -> str:
    how = [f"{target.model.pipeline} on {target.launch.world_size} {row.unit}{'s' if target.is_parallel else ''}"]
    how += ["tensor parallel"] if target.tensor_parallel else []
    how += ["context parallel"] if target.context_parallel else []
    how.append(target.mode)
    return ", ".join(how).replace("processs", "processes") + "."


def _remarks(target: TargetProgram, row: Device) -> list[str]:
    remarks = [f"Meant for {target.instance}."] if target.instance else []
    for part in target.tensor_parallel:
        if part.sharded_bytes is not None:
            held = f"Each rank holds {_gigabytes(part.sharded_bytes)} of sharded weights"
            whole = (
                ""
                if part.whole_bytes is None
                else f", and {_gigabytes(part.whole_bytes)} of the {part.component} whole"
            )
            remarks.append(f"{held}{whole}.")
    if target.is_parallel and row.needs_host_mesh_patches:
        remarks.append("A CPU mesh shows that the program is right, not how fast it is.")
    return textwrap.wrap(" ".join(remarks), WIDTH)


def _gigabytes(number: int) -> str:
    return f"{number / 1e9:.2f} GB"


def _stdlib_imports(target: TargetProgram, row: Device) -> tuple[str, ...]:
    needs_os = target.launch.env or target.is_parallel or row.autoload_module
    modules = ["argparse", *(["os"] if needs_os else []), *(["resource"] if "resource." in row.peak_memory else [])]
    plain = [f"import {module}" for module in (*modules, "sys", "time")]
    wanted = [
        *(["from datetime import timedelta"] if target.is_parallel else []),
        *(["from importlib.util import find_spec"] if target.output == "frames" else []),
        "from itertools import pairwise",
        "from pathlib import Path",
        "from statistics import median",
        "from typing import Any, NoReturn",
    ]
    return tuple(plain + wanted)


def _imports(target: TargetProgram, row: Device) -> tuple[str, ...]:
    """Third-party imports, in the order of the modules."""
    written_out = [part for part in target.tensor_parallel if not part.is_class_plan]
    splits = [part for part in target.context_parallel if not part.is_class_plan]
    from_diffusers = [target.model.pipeline]
    from_diffusers += [target.model.transformer, "TensorParallelConfig"] if target.tensor_parallel else []
    from_diffusers += ["ContextParallelConfig"] if target.context_parallel else []
    from_diffusers += [target.scheduler.class_] if target.scheduler else []
    lines = ["import numpy as np", "import torch"]
    lines += ["import torch.distributed as dist"] if target.is_parallel else []
    lines.append(plans.import_from("diffusers", from_diffusers))
    if target.is_parallel and row.needs_host_mesh_patches:
        lines.append("from diffusers.hooks import tensor_parallel")
    if names := plans.tp_names(written_out):
        lines.append(plans.import_from(plans.TP_MODULE, names))
    if names := plans.cp_names(splits):
        lines.append(plans.import_from(plans.CP_MODULE, names))
    lines += [line] if (line := image_size_import(target)) else []
    lines += ["from diffusers.utils import export_to_gif, export_to_video"] if target.output == "frames" else []
    lines += ["from diffusers.utils import logging as diffusers_logging"] if target.is_parallel else []
    lines.append("from PIL import Image, ImageOps" if target.fits_image else "from PIL import Image")
    if target.is_parallel:
        names = ["DeviceMesh", *(["init_device_mesh"] if len(target.mesh) > 1 else [])]
        lines.append(plans.import_from("torch.distributed.device_mesh", names))
    lines += ["from torch.nn.functional import pad"] if target.text.is_padded else []
    lines += ["from transformers.utils import logging as transformers_logging"] if target.is_parallel else []
    return tuple(lines)


def _plans(target: TargetProgram) -> tuple[Constant, ...]:
    """Plans that are not the class's own stand in the script."""
    found = [*plans.constants(target.tensor_parallel).values(), *plans.constants(target.context_parallel).values()]
    return tuple(dict.fromkeys(found))


def _source(target: TargetProgram) -> dict[str, Any]:
    model = target.model
    said = {"revision": model.revision, "variant": model.variant, "use_safetensors": model.use_safetensors}
    return {key: value for key, value in said.items() if value is not None}


def _pipeline_dtype(target: TargetProgram) -> str:
    own = {part.name: Name(f"torch.{part.dtype}") for part in target.components if part.dtype != target.model.dtype}
    if not own:
        return "dtype"
    return literal({"default": Name("dtype"), **own}, indent=8, before=len("dtype="))


def _placement(target: TargetProgram) -> list[str]:
    moved = [part for part in target.components if not part.on_host]
    everything = len(moved) == len(target.components) and not target.tensor_parallel
    statements = ["pipe.to(device)"] if everything else [f"pipe.{part.name}.to(device)" for part in moved]
    if not everything and not target.tensor_parallel:
        statements = [f"pipe.{name}.to(device)" for name in target.denoisers] + statements
    statements += [f"pipe.{part.name}.enable_tiling()" for part in target.components if part.tiling]
    statements += [f"pipe.{part.name}.enable_slicing()" for part in target.components if part.slicing]
    return statements


def _warm_up_keywords(target: TargetProgram) -> str:
    """As few steps as run every denoiser: another number of steps is no other shape. Sigmas would be as many steps."""
    all_steps = ', "sigmas": None' if any(item.name == "sigmas" for item in target.call) else ""
    steps = 1 if len(target.denoisers) == 1 else STEPS_OF_TWO
    return f'{{**warm_request, "num_inference_steps": {steps}{all_steps}}}'


def _warm_up_reason(target: TargetProgram) -> str:
    if not target.is_static:
        return "the first call compiles; no image should wait for that."
    if len(target.denoisers) == 1:
        return "compile a graph for every declared shape."
    return f"compile every declared shape; in {STEPS_OF_TWO} steps each denoiser has its turn."


def _scheduler(target: TargetProgram) -> str:
    if target.scheduler is None:
        return ""
    arguments = ["pipe.scheduler.config"]
    odd: dict[str, Any] = {}
    for key, value in target.scheduler.config:
        if key.isidentifier() and not keyword.iskeyword(key):
            arguments.append(f"{key}={literal(value, indent=8, before=len(key) + 1)}")
        else:
            odd[key] = value
    if odd:
        arguments.append(f"**{literal(odd, indent=8, before=2)}")
    return call(f"pipe.scheduler = {target.scheduler.class_}.from_config", arguments, indent=4)


def _init_process_group(target: TargetProgram, row: Device) -> str:
    arguments = [f"backend={literal(row.backend)}", f"timeout=timedelta(seconds={target.launch.timeout})"]
    if row.rank_setup:
        arguments.append("device_id=device")
    return call("dist.init_process_group", arguments, indent=4)


def _compile_call(part: Compile) -> str:
    model = f"pipe.{part.component}"
    if part.scope == "repeated_blocks":
        head, first = f"{model}.compile_repeated_blocks", []
    elif part.entry == "decode":
        head, first = f"{model}.decode = torch.compile", [f"{model}.decode"]
    else:
        head, first = f"{model}.compile", []
    arguments = [f"backend={literal(part.backend)}"]
    arguments += [f"fullgraph={literal(part.fullgraph)}", f"dynamic={literal(part.dynamic)}"]
    if part.mode is not None:
        arguments.append(f"mode={literal(part.mode)}")
    if part.options:
        arguments.append(f"options={literal(dict(part.options), indent=8, before=len('options='))}")
    return call(head, [*first, *arguments], indent=4)
