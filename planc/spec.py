"""The plan as the user writes it: the single source of truth.

The JSON Schema, the reference documentation and "did you mean" all come from these records. The string
under each field is its documentation. A field with a default may be left out or set to null, which restores
the default. Whatever relates two fields is a rule, not a constraint here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from planc.located import Node

NAME_PATTERN = r"^[a-z0-9][a-z0-9-]*$(?!\n)"
"""Names of plans and targets; `$` alone would let a line end through."""


@dataclass(frozen=True, slots=True)
class Minimum:
    """The least value of a number."""

    value: int


@dataclass(frozen=True, slots=True)
class Maximum:
    """The greatest value of a number."""

    value: int


@dataclass(frozen=True, slots=True)
class NotEmpty:
    """A mapping, list or string needs at least one element."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """The pattern of a text, and an example of it."""

    pattern: str
    example: str


@dataclass(frozen=True, slots=True)
class KeyPattern:
    """The pattern of a mapping's keys."""

    pattern: str


SYNONYMS = {
    "gpu": "cuda",
    "nvidia": "cuda",
    "trainium": "neuron",
    "trn2": "neuron",
    "bf16": "bfloat16",
    "fp16": "float16",
    "half": "float16",
    "fp32": "float32",
    "float": "float32",
    "compile": "compiled",
    "column": "colwise",
    "row": "rowwise",
}
"""Words that people write for a value of the plan: for "did you mean" only."""

Dtype = Literal["bfloat16", "float16", "float32"]
Device = Literal["neuron", "cuda", "xpu", "tpu", "cpu"]
Mode = Literal["eager", "compiled"]
Style = Literal["colwise", "rowwise", "packed_colwise", "packed_rowwise", "colwise_gathered"]
Seed = Annotated[int, Minimum(0), Maximum(2**64 - 1)]
"""What `torch.Generator.manual_seed` takes (torch 2.13), without the negative ones."""
Positive = Annotated[int, Minimum(1)]
CallValue = str | int | float | bool | tuple[Any, ...] | Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Model(Node):
    """The pipeline, and where its weights come from."""

    pipeline: str | None = None
    """Class of the diffusers pipeline, such as `Flux2KleinPipeline`. May be left out where the checkpoint is known or is a local folder with a `model_index.json`."""
    checkpoint: Annotated[str, NotEmpty()]
    """A hub id (`black-forest-labs/FLUX.2-klein-4B`) or a folder that `save_pretrained` wrote."""
    revision: str | None = None
    """Branch, tag or commit of the hub repository."""
    variant: str | None = None
    """Variant of the weight files, such as `fp16`."""
    use_safetensors: bool | None = None
    """Insist on (true) or refuse (false) safetensors files. A tensor-parallel load needs safetensors."""
    dtype: Dtype = "bfloat16"
    """Data type of the weights and of the computation."""


@dataclass(frozen=True, kw_only=True)
class Shape(Node):
    """One static shape: one compiled graph."""

    height: Positive
    """Height of the image or video, in pixels."""
    width: Positive
    """Width of the image or video, in pixels."""
    num_frames: Positive | None = None
    """Frames of the video; only for video models."""
    text_tokens: Positive | None = None
    """Length that every prompt is padded to, in tokens. Compiled mode needs it: a text length is a shape too."""
    batch: Positive = 1
    """Images made at once for a prompt; the script passes it on as `num_images_per_prompt`."""


@dataclass(frozen=True, kw_only=True)
class Compile(Node):
    """Arguments of `torch.compile`."""

    scope: Literal["full", "repeated_blocks"] = "full"
    """`full` compiles the whole model; `repeated_blocks` compiles each kind of block once, which is faster to compile."""
    fullgraph: bool = True
    """Raise on a graph break instead of running the rest uncompiled."""
    dynamic: bool = False
    """Compile for symbolic sizes. Static means static: neuron refuses true."""
    backend: str | None = None
    """Compile backend; the device's own by default (`neuron` on neuron, `tpu` on tpu, `inductor` elsewhere)."""
    mode: str | None = None
    """Mode of the backend, such as `max-autotune`."""
    options: Mapping[str, str | int | float | bool] | None = None
    """Options of the backend."""


@dataclass(frozen=True, kw_only=True)
class Hardware(Node):
    """The machine that the target is meant for."""

    instance: Annotated[str, Pattern(r"^[A-Za-z0-9][A-Za-z0-9._-]*$(?!\n)", "trn2.48xlarge")] | None = None
    """Instance type, such as `trn2.48xlarge`."""
    lnc: Literal[1, 2] | None = None
    """Physical NeuronCores a logical core (Trainium2 and 3); the script sets `NEURON_LOGICAL_NC_CONFIG`."""


@dataclass(frozen=True, kw_only=True)
class PackedStyle(Node):
    """A style with the blocks of a Linear that fuses several projections."""

    style: Style
    """How the Linear is sharded."""
    blocks: Annotated[tuple[Positive, ...], NotEmpty()] | None = None
    """Proportions of the fused blocks, such as `[1, 1]`; by default the Linear's own attribute says them."""


TensorParallelPlan = Literal["class", "shipped"] | Annotated[Mapping[str, Style | PackedStyle], NotEmpty()]


@dataclass(frozen=True, kw_only=True)
class ComponentTensorParallel(Node):
    """How one component's weights are sharded."""

    plan: TensorParallelPlan
    """`class`: the model class's own `_tp_plan`. `shipped`: the one planc ships. Or written out: module pattern to style."""
    divided_attributes: tuple[str, ...] = ()
    """Integer attributes that a rank must divide by the degree, such as `blocks.*.attn1.heads`."""
    spanning_norms: tuple[str, ...] = ()
    """Norms over all heads, which need the other ranks' statistics."""
    sliced_arguments: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Arguments of which a rank takes its heads' part."""
    sharded_parameters: tuple[str, ...] = ()
    """Per-head parameters outside a Linear."""


@dataclass(frozen=True, kw_only=True)
class TensorParallel(ComponentTensorParallel):
    """Tensor parallelism: each rank holds a slice of the planned weights."""

    degree: Annotated[int, Minimum(2)]
    """Ranks that share a layer's weights: the size of the mesh axis `tp`."""


@dataclass(frozen=True, kw_only=True)
class ContextParallelTensor(Node):
    """How one tensor is split over the ranks, or gathered from them."""

    split_dim: int | None = None
    """Dim along which the tensor is split."""
    gather_dim: int | None = None
    """Dim along which the output is gathered."""
    expected_dims: Positive | None = None
    """Number of dims the tensor must have."""
    split_output: bool = False
    """Split the module's output instead of its input."""


@dataclass(frozen=True, kw_only=True)
class ContextParallel(Node):
    """Context parallelism: each rank holds a slice of the sequence."""

    ring_degree: Positive = 1
    """Ranks of ring attention: the size of the mesh axis `ring`."""
    ulysses_degree: Positive = 1
    """Ranks of Ulysses attention: the size of the mesh axis `ulysses`."""
    convert_to_fp32: bool = True
    """Merge ring attention's partial results in float32."""
    rotate_method: Literal["allgather", "alltoall"] = "allgather"
    """How keys and values travel round the ring."""
    ulysses_anything: bool = False
    """Allow lengths and head counts that the degree does not divide, for Ulysses."""
    ring_anything: bool = False
    """Allow lengths that the degree does not divide, for ring attention."""
    plan: Literal["class", "shipped"] | Mapping[str, ContextParallelTensor | Mapping[str, ContextParallelTensor]]
    """`class`: the model class's own `_cp_plan`. `shipped`: the one planc ships. Or written out: module to tensors; an all-digit key is an output index."""


@dataclass(frozen=True, kw_only=True)
class Component(Node):
    """What is said for one component of the pipeline; its word wins over the target's."""

    placement: Literal["device", "cpu"] = "device"
    """`device`: on the accelerator. `cpu`: on the host; a text encoder then encodes first and only its embeddings travel."""
    dtype: Dtype | None = None
    """Data type of this component; the model's by default."""
    compile: Compile | None = None
    """Compile this component too."""
    tensor_parallel: ComponentTensorParallel | None = None
    """Another tensor-parallel plan for this component."""
    tiling: bool = False
    """Decode in tiles (VAE): less memory, more time."""
    slicing: bool = False
    """Decode a batch one image at a time (VAE)."""


@dataclass(frozen=True, kw_only=True)
class Scheduler(Node):
    """Another scheduler than the checkpoint's."""

    class_: Annotated[str, NotEmpty()]
    """Class of the diffusers scheduler, such as `FlowMatchEulerDiscreteScheduler`."""
    config: Mapping[str, Any] = field(default_factory=dict)
    """Values that replace those of the checkpoint's scheduler config."""


@dataclass(frozen=True, kw_only=True)
class Launch(Node):
    """How the processes are started."""

    nnodes: Positive = 1
    """Number of machines."""
    timeout: Positive = 3600
    """Timeout of the process group, in seconds: a long first compile or download must not kill it."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Environment variables of the script; one that is set already wins."""


@dataclass(frozen=True, kw_only=True)
class Target(Node):
    """One way to run the model: a device, a mode, and how the work is shared out."""

    extends: str | None = None
    """Another target of this file whose fields this one starts from."""
    device: Device
    """Kind of device."""
    mode: Mode
    """`eager`, or `compiled` for static shapes."""
    compile: Compile | None = None
    """How the denoisers are compiled; only with `mode: compiled`."""
    cache_dir: Annotated[str, NotEmpty()] | None = None
    """Folder of compiled graphs that outlives a reboot (`TORCH_NEURONX_NEFF_CACHE_DIR` on neuron, `TORCHINDUCTOR_CACHE_DIR` on cuda, xpu and cpu)."""
    hardware: Hardware | None = None
    """The machine that the target is meant for."""
    attention_backend: Annotated[str, NotEmpty()] | None = None
    """Attention backend of the denoisers, as in `set_attention_backend`."""
    tensor_parallel: TensorParallel | None = None
    """Shard the denoisers' weights over ranks."""
    context_parallel: ContextParallel | None = None
    """Split the denoisers' sequence over ranks."""
    components: Mapping[str, Component] = field(default_factory=dict)
    """What is said for one component, by its name in the pipeline."""
    scheduler: Scheduler | None = None
    """Another scheduler than the checkpoint's."""
    launch: Launch | None = None
    """How the processes are started."""
    model: Model
    """Replaces keys of the plan's `model` for this target."""
    call: Mapping[str, CallValue | None] = field(default_factory=dict)
    """Replaces keys of the plan's `call` for this target."""
    seed: Seed = 0
    """Replaces the plan's `seed` for this target."""
    shapes: tuple[Shape, ...] = ()
    """Replaces the plan's `shapes` for this target."""


@dataclass(frozen=True, kw_only=True)
class PlanFile(Node):
    """A plan file: one model, several targets."""

    version: Literal[1]
    """Version of the plan format."""
    model: Model
    """The pipeline, and where its weights come from."""
    call: Mapping[str, CallValue | None] = field(default_factory=dict)
    """Keywords of the pipeline's `__call__`; each becomes an option of the scripts."""
    seed: Seed = 0
    """Seed of a CPU generator, the same on every rank."""
    shapes: tuple[Shape, ...] = ()
    """Static shapes: one compiled graph each."""
    components: Mapping[str, Component] = field(default_factory=dict)
    """What is said for one component in every target, by its name in the pipeline."""
    targets: Annotated[Mapping[str, Target], NotEmpty(), KeyPattern(NAME_PATTERN)]
    """The ways to run the model; a target's name is the name of its script."""


SHARED_KEYS = ("model", "call", "seed", "shapes", "components")
"""Keys that a plan says for all its targets and a target may repeat."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A loaded plan: what the file says for each target, its `extends` and shared keys laid together."""

    name: str
    """The file's name without its ending: the name of the output folder."""
    file_name: str
    """The file's name without its folder."""
    text: str
    """The file's text."""
    targets: Mapping[str, Target]
    """The targets by name, in the file's order."""
