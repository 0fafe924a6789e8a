"""The mesh of a target, and how its denoisers' sequences are shared out."""

from __future__ import annotations

from planc.emit.context import Denoiser, Sequence
from planc.emit.literal import call, literal
from planc.emit.plans import constants
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


def sharded_denoisers(target: TargetProgram) -> tuple[Denoiser, ...]:
    """The denoisers that are loaded one by one, each rank its slice."""
    plans = constants(target.tensor_parallel)
    found: list[Denoiser] = []
    said = ""
    for part in target.tensor_parallel:
        name = plans[part.component].name if part.component in plans else ""
        # The class keeps the plan that it was given last.
        found.append(
            Denoiser(name=part.component, subfolder=literal(part.component), tp_plan=name if name != said else "")
        )
        said = name
    return tuple(found)


def sequence(target: TargetProgram) -> Sequence | None:
    """The denoisers' attention backend and context parallelism; None where nothing is said of either."""
    if target.attention_backend is None and not target.context_parallel:
        return None
    is_loop = len(target.denoisers) > 1
    head, indent = ("denoiser", 8) if is_loop else (f"pipe.{target.denoisers[0]}", 4)
    is_sharded = bool(target.tensor_parallel and target.context_parallel)
    statements = []
    if target.attention_backend is not None:
        statements.append(call(f"{head}.set_attention_backend", [literal(target.attention_backend)], indent=indent))
    if target.context_parallel:
        statements.append(_enable(target, target.context_parallel[0], head, indent))
    denoisers = ", ".join(f"pipe.{name}" for name in target.denoisers)
    return Sequence(
        is_sharded=is_sharded,
        loop=f"for denoiser in ({denoisers}):" if is_loop else "",
        head=head,
        pad=" " * indent,
        statements=tuple(statements),
    )


def _enable(target: TargetProgram, part: ContextParallel, head: str, indent: int) -> str:
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
    config = call("config=ContextParallelConfig", options, indent=indent + 4, after=1)
    plans = constants([part])
    arguments = [config, *(f"cp_plan={plan.name}" for plan in plans.values())]
    return call(f"{head}.enable_parallelism", arguments, indent=indent)
