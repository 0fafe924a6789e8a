"""The mesh of a target, and how its denoisers' sequences are shared out."""

from __future__ import annotations

from planc.emit.context import Sequence
from planc.emit.literal import call, literal
from planc.emit.plans import constant_name
from planc.ir import ContextParallel, TargetProgram


def mesh_call(target: TargetProgram) -> str:
    """The statement that makes the device mesh."""
    device = literal(target.device)
    if len(target.mesh) == 1:
        return f"mesh = DeviceMesh({device}, list(range(WORLD_SIZE)), mesh_dim_names=({literal(target.mesh[0][0])},))"
    names = tuple(name for name, _ in target.mesh)
    degrees = tuple(degree for _, degree in target.mesh)
    return call("mesh = init_device_mesh", [device, literal(degrees), f"mesh_dim_names={literal(names)}"], indent=4)


def tp_mesh(target: TargetProgram) -> str:
    """Expression: the mesh axis of tensor parallelism."""
    return 'mesh["tp"]' if len(target.mesh) > 1 else "mesh"


def sequences(target: TargetProgram) -> tuple[Sequence, ...]:
    """For each denoiser: its attention backend and its context parallelism, where it has either."""
    parts = {part.component: part for part in target.context_parallel}
    sharded = {part.component for part in target.tensor_parallel}
    found = []
    for name in target.denoisers:
        statements = []
        if target.attention_backend is not None:
            statements.append(call(f"pipe.{name}.set_attention_backend", [literal(target.attention_backend)], indent=4))
        if name in parts:
            statements.append(_enable(target, parts[name]))
        if statements:
            found.append(
                Sequence(name=name, is_sharded=name in parts and name in sharded, statements=tuple(statements))
            )
    return tuple(found)


def _enable(target: TargetProgram, part: ContextParallel) -> str:
    options = []
    if part.ring_degree > 1:
        options += [
            f"ring_degree={part.ring_degree}",
            f"convert_to_fp32={part.convert_to_fp32}",
            f"rotate_method={literal(part.rotate_method)}",
        ]
    if part.ulysses_degree > 1:
        options.append(f"ulysses_degree={part.ulysses_degree}")
    options += [f"{key}=True" for key in ("ulysses_anything", "ring_anything") if getattr(part, key)]
    options.append('mesh=mesh["ring", "ulysses"]' if target.tensor_parallel else "mesh=mesh")
    config = call("config=ContextParallelConfig", options, indent=8, after=1)
    arguments = [config] if part.is_class_plan else [config, f"cp_plan={constant_name(part)}"]
    return call(f"pipe.{part.component}.enable_parallelism", arguments, indent=4)
