"""One target → the context of its script."""

from __future__ import annotations

import textwrap
from typing import Any

from planc.catalog.devices import DEVICES, Device
from planc.emit.context import Constant, Denoiser, Encode, Option, ScriptContext
from planc.emit.literal import WIDTH, Call, Name, assignment, call, literal
from planc.ir import Argument, Compile, Program, TargetProgram, TensorParallel

_TYPES = {"text": "str", "integer": "int", "number": "float", "integers": "int", "numbers": "float"}
_STYLES = {"packed_colwise": "PackedColwiseParallel", "packed_rowwise": "PackedRowwiseParallel"}
"""diffusers' classes of the packed styles; the plain ones are strings. diffusers 0.42.1, hooks/tensor_parallel.py."""


def script_context(program: Program, target: TargetProgram) -> ScriptContext:
    """Everything that the script of `target` says."""
    row = DEVICES[target.device]
    world_size = target.launch.world_size if target.is_parallel else 0
    torchrun = f"torchrun --standalone --nproc_per_node={world_size} {target.module}.py"
    command = torchrun if target.is_parallel else f"python {target.module}.py"
    written_out = tuple(part for part in target.tensor_parallel if not part.is_class_plan)
    source = _source(target)
    is_static = any(part.component in target.denoisers and not part.dynamic for part in target.compile)
    return ScriptContext(
        title=_title(target, row),
        target=target.name,
        plan_file=program.file_name,
        command=f'{command} --prompt "a lighthouse at dusk"',
        fail_without_ranks=call("fail", [literal(f"start one process a rank: {torchrun}")], indent=8),
        remarks=tuple(_remarks(target, row)),
        stdlib_imports=_stdlib_imports(target, row),
        environment=tuple(
            call("os.environ.setdefault", [literal(name), literal(value)], indent=0)
            for name, value in target.launch.env
        ),
        imports=_imports(target, row, written_out),
        autoload_module=row.autoload_module,
        checkpoint=assignment("CHECKPOINT", target.model.checkpoint),
        source=assignment("SOURCE: dict[str, Any]", source) if source else "",
        world_size=world_size,
        is_static=is_static,
        shapes=literal([_shape(target, index) for index in range(len(target.shapes))], is_exploded=True),
        tp_plans=tuple(
            Constant(name=_plan_name(part), value=literal(plan_literal(part), is_exploded=True)) for part in written_out
        ),
        prompt=next((literal(item.value, indent=8) for item in target.call if item.name == "prompt"), ""),
        options=tuple(_option(item) for item in target.call if item.name != "prompt"),
        seed=call("parser.add_argument", ['"--seed"', "type=int", f"default={literal(target.seed)}"], indent=4),
        dtype=literal(target.model.dtype),
        output=call("default=Path", [literal(f"{program.name}-{target.name}.png")], indent=8),
        patches_host_mesh=target.is_parallel and row.needs_host_mesh_patches,
        pipeline=target.model.pipeline,
        transformer=target.model.transformer,
        download=call(
            f"{target.model.pipeline}.download",
            ["checkpoint", *(["**source(checkpoint)"] if source else [])],
            indent=8,
        ),
        mesh_parameter=", mesh: DeviceMesh" if target.is_parallel else "",
        denoisers=tuple(
            Denoiser(
                name=part.component,
                subfolder=literal(part.component),
                tp_plan="" if part.is_class_plan else _plan_name(part),
            )
            for part in target.tensor_parallel
        ),
        pipeline_dtype=_pipeline_dtype(target),
        placement=tuple(_placement(target)),
        casts_decode=any(part.role == "vae" and part.dtype != target.model.dtype for part in target.components),
        encode=_encode(target),
        spread_source="**source(args.checkpoint)" if source else "",
        shape_options=tuple(_shape_option(keyword) for keyword in _shape(target, 0)),
        pipe_parameter="pipe: Any, " if target.text.is_encoded_first else "",
        pipe_argument="pipe, " if target.text.is_encoded_first else "",
        synchronize=row.synchronize,
        verbs="compile, warm up, run" if is_static else "run",
        init_process_group=_init_process_group(target, row),
        device=row.rank_device if target.is_parallel else row.device,
        rank_setup=row.rank_setup if target.is_parallel else "",
        device_type=literal(row.name),
        compile_calls=tuple(_compile_call(part) for part in target.compile),
        is_warmed_up=is_static or bool(target.compile) or row.caches_eager,
        warm_up_keywords=_warm_up_keywords(target),
        warm_up_reason="compile a graph for every declared shape."
        if is_static
        else "the first call compiles; no image should wait for that.",
        peak_memory=row.peak_memory,
        peak_memory_of=row.peak_memory_of,
    )


def _title(target: TargetProgram, row: Device) -> str:
    how = [f"{target.model.pipeline} on {target.launch.world_size} {row.unit}{'s' if target.is_parallel else ''}"]
    if target.is_parallel:
        how.append("tensor parallel")
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
        "from itertools import pairwise",
        "from pathlib import Path",
        "from statistics import median",
        "from typing import Any, NoReturn",
    ]
    return tuple(plain + wanted)


def _imports(target: TargetProgram, row: Device, written_out: tuple[TensorParallel, ...]) -> tuple[str, ...]:
    from_diffusers = [target.model.pipeline]
    if target.tensor_parallel:
        from_diffusers += [target.model.transformer, "TensorParallelConfig"]
    lines = ["import numpy as np", "import torch"]
    if target.is_parallel:
        lines.append("import torch.distributed as dist")
    lines.append(_from("diffusers", from_diffusers))
    if target.is_parallel and row.needs_host_mesh_patches:
        lines.append("from diffusers.hooks import tensor_parallel")
    if packed := packed_names(written_out):
        lines.append(_from("diffusers.hooks.tensor_parallel", packed))
    if target.is_parallel:
        lines.append("from diffusers.utils import logging as diffusers_logging")
    lines.append("from PIL import Image")
    if target.is_parallel:
        lines.append("from torch.distributed.device_mesh import DeviceMesh")
        lines.append("from transformers.utils import logging as transformers_logging")
    return tuple(lines)


def _from(module: str, names: list[str]) -> str:
    flat = f"from {module} import {', '.join(sorted(names))}"
    if len(flat) <= WIDTH:
        return flat
    return "\n".join([f"from {module} import (", *(f"    {name}," for name in sorted(names)), ")"])


def _source(target: TargetProgram) -> dict[str, Any]:
    model = target.model
    said = {"revision": model.revision, "variant": model.variant, "use_safetensors": model.use_safetensors}
    return {key: value for key, value in said.items() if value is not None}


def _shape(target: TargetProgram, index: int) -> dict[str, int]:
    shape = target.shapes[index]
    keywords = {"height": shape.height, "width": shape.width, target.text.length_keyword: shape.text_tokens}
    if any(other.batch != 1 for other in target.shapes):
        keywords["num_images_per_prompt"] = shape.batch
    return keywords


def _flag(keyword: str) -> str:
    return literal("--" + keyword.replace("_", "-"))


def _shape_option(keyword: str) -> str:
    return call("parser.add_argument", [_flag(keyword), "type=int"], indent=4)


def _option(item: Argument) -> Option:
    arguments = []
    if item.kind == "flag":
        arguments.append("action=argparse.BooleanOptionalAction")
    else:
        arguments.append(f"type={_TYPES[item.kind]}")
    if item.kind in ("integers", "numbers"):
        arguments.append('nargs="+"')
    arguments.append(f"default={literal(item.value, indent=8, before=len('default='))}")
    return Option(
        name=item.name,
        keyword=literal(item.name),
        statement=call("parser.add_argument", [_flag(item.name), *arguments], indent=4),
    )


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
    """One step is enough to compile: another number of steps is no other shape. Given sigmas would be as many steps."""
    all_steps = ', "sigmas": None' if any(item.name == "sigmas" for item in target.call) else ""
    return f'{{**warm_request, "num_inference_steps": 1{all_steps}}}'


def _encode(target: TargetProgram) -> Encode | None:
    text = target.text
    if not text.is_encoded_first:
        return None
    return Encode(
        method=text.encode,
        length_keyword=literal(text.length_keyword),
        denoiser=target.denoisers[0],
        options=tuple(_option(item) for item in target.call if item.name in text.encode_keywords),
        embeds=literal(text.embeds),
        negative="" if text.negative_embeds is None else literal(text.negative_embeds),
    )


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


def plan_literal(part: TensorParallel) -> dict[str, Any]:
    """The plan as diffusers takes it: pattern to style."""
    plan: dict[str, Any] = {}
    for entry in part.entries:
        if entry.style in _STYLES:
            blocks = () if entry.blocks is None else (list(entry.blocks),)
            plan[entry.pattern] = Call(_STYLES[entry.style], blocks)
        else:
            plan[entry.pattern] = entry.style
    return plan


def packed_names(parts: tuple[TensorParallel, ...]) -> list[str]:
    """The packed styles' classes that the plans use."""
    return sorted({_STYLES[entry.style] for part in parts for entry in part.entries if entry.style in _STYLES})


def _plan_name(part: TensorParallel) -> str:
    return f"{part.component.upper()}_TP_PLAN"
