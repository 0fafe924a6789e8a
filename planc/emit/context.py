"""The variables of each template: one frozen record a template. Text that came from a plan is a literal here."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """An option of the script that sets a keyword of the pipeline's call."""

    name: str
    keyword: str
    statement: str
    """The call that adds it to the parser."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Constant:
    """A constant of a generated module."""

    name: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Denoiser:
    """A denoiser that is loaded on its own, sharded."""

    name: str
    subfolder: str
    tp_plan: str
    """Name of the constant to set as the class's plan; empty where the class's own serves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Encode:
    """How prompts are encoded before the call."""

    method: str
    length_keyword: str
    denoiser: str
    options: tuple[Option, ...]
    """Options of the script that the encode method takes."""
    embeds: str
    negative: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptContext:
    """The variables of `templates/script.py.j2`. Text that came from a plan is a Python literal here."""

    title: str
    target: str
    plan_file: str
    command: str
    fail_without_ranks: str
    remarks: tuple[str, ...]
    stdlib_imports: tuple[str, ...]
    environment: tuple[str, ...]
    imports: tuple[str, ...]
    autoload_module: str
    checkpoint: str
    source: str
    """Assignment of what else the plan says of its checkpoint; empty where it says nothing."""
    spread_source: str
    """What passes that on to a call; empty where there is nothing."""
    shape_options: tuple[str, ...]
    """Statements that add an option for each keyword of a shape."""
    world_size: int
    """Ranks; 0 for a plain script."""
    is_static: bool
    shapes: str
    tp_plans: tuple[Constant, ...]
    prompt: str
    options: tuple[Option, ...]
    seed: str
    dtype: str
    output: str
    patches_host_mesh: bool
    pipeline: str
    transformer: str
    download: str
    mesh_parameter: str
    denoisers: tuple[Denoiser, ...]
    pipeline_dtype: str
    placement: tuple[str, ...]
    casts_decode: bool
    encode: Encode | None
    pipe_parameter: str
    """`pipe: Any, ` where the request encodes; empty where it does not."""
    pipe_argument: str
    """`pipe, ` where the request encodes; empty where it does not."""
    synchronize: str
    verbs: str
    init_process_group: str
    device: str
    rank_setup: str
    device_type: str
    compile_calls: tuple[str, ...]
    is_warmed_up: bool
    warm_up_keywords: str
    """Keywords of a call of one step."""
    warm_up_reason: str
    peak_memory: str
    peak_memory_of: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchContext:
    """The variables of `templates/launch.sh.j2`."""

    target: str
    plan_file: str
    world_size: int
    unit: str
    script: str
    module: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlansContext:
    """The variables of `templates/tp_plan.py.j2`."""

    plan_file: str
    imports: str
    constants: tuple[Constant, ...]
    plans: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanContext:
    """The variables of `templates/plan.yaml.j2`; text is quoted as json, which is YAML too."""

    pipeline: str
    checkpoint: str
    height: int
    width: int
    degree: int
