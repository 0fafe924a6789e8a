"""The variables of each template: one frozen record a template. Text that came from a plan is a literal here."""

from __future__ import annotations

from dataclasses import dataclass


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
class Sequence:
    """How the denoisers' sequence is shared out, and their attention backend set."""

    is_sharded: bool
    """Whether their weights are shared out too."""
    loop: str
    """Head of the loop over several denoisers; empty for one."""
    head: str
    """Expression: the denoiser."""
    pad: str
    """Indentation of the statements."""
    statements: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Keyword:
    """A keyword of the call, and the text of its value."""

    name: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Encode:
    """How prompts are encoded before the call."""

    denoiser: str
    call: str
    """The call of the encode method."""
    returns: tuple[Keyword, ...]
    is_padded: bool
    length: str
    """Expression: the length to pad to."""
    embeds: str
    mask: str
    """Keywords of the embeddings and of their mask."""
    image: str
    """Expression: the image that is encoded with the prompt."""
    image_size: str
    """Call that gives the sides of the image that the text encoder sees; empty where it sees none."""
    negative: str
    """Expression: the negative prompt; empty where none is run."""


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
    plans: tuple[Constant, ...]
    """Parallel plans that are not the class's own."""
    prompt: str
    options: tuple[str, ...]
    """Statements that add an option for each keyword of the call."""
    call_keywords: tuple[Keyword, ...]
    """Keywords of the pipeline's call beside the prompt and the shape."""
    spread_shape: str
    """What passes the shape on to the call."""
    images: tuple[str, ...]
    """Options that name an image to open."""
    fits_image: bool
    """Whether the input image is cut to the shape's proportions, since its size decides how many tokens it becomes."""
    makes_video: bool
    kind: str
    """`image` or `video`."""
    made: str
    """What the script makes: `images` or `videos`."""
    save_arguments: str
    fps: int
    file_types: str
    results: str
    """Attribute of what the call returns."""
    seed: str
    dtype: str
    output: str
    patches_host_mesh: bool
    pipeline: str
    transformer: str
    download: str
    mesh_parameter: str
    mesh: str
    """The call that makes the device mesh."""
    tp_mesh: str
    """Expression: the mesh axis of tensor parallelism."""
    sequence: Sequence | None
    scheduler: str
    """Statement that sets another scheduler; empty where the checkpoint's serves."""
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
    """The variables of `templates/plans.py.j2`."""

    title: str
    doc: str
    name: str
    """Name of the dictionary."""
    imports: str
    constants: tuple[Constant, ...]
    plans: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanContext:
    """The variables of `templates/plan.yaml.j2`; text is quoted as json, which is YAML too."""

    pipeline: str
    checkpoint: str
    shape: str
    parallel_name: str
    parallel_device: str
    cache_dir: str
    parallel: str
    """What the parallel target says beside its device; empty where the class has no plan of its own."""
    cpu_parallel: str
