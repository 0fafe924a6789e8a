"""The resolved Program: what a plan means, every default filled in.

Frozen records and tuples only. A field that is None says "not used here", never "some default". `origins` maps a
field's name to the place that gave its value; a field that is not in it holds a default. It is left out of equality.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from planc.diagnostics import Span

Origins = Mapping[str, Span]

MESH_AXES = ("ring", "ulysses", "tp")
"""Axes of a device mesh, outermost first: ranks that share a layer's weights are neighbours, as they talk most."""


@dataclass(frozen=True, kw_only=True)
class Record:
    """A part of a program that knows where its fields came from."""

    origins: Origins = field(default_factory=dict, compare=False, repr=False)


@dataclass(frozen=True, kw_only=True)
class Model(Record):
    """The pipeline and its weights."""

    pipeline: str
    transformer: str
    """Class of the denoisers."""
    checkpoint: str
    revision: str | None
    variant: str | None
    use_safetensors: bool | None
    dtype: str


@dataclass(frozen=True, kw_only=True)
class Argument(Record):
    """A keyword of the pipeline's `__call__`, and an option of the script."""

    name: str
    kind: str
    """`text`, `integer`, `number`, `flag`, `integers`, `numbers` or `image`."""
    value: Any
    """None: the plan says none, and the option must be given."""


@dataclass(frozen=True, kw_only=True)
class Shape(Record):
    """A static shape."""

    height: int
    width: int
    num_frames: int | None
    """Frames of a video; None: the model makes images."""
    text_tokens: int
    """Length that every prompt is padded to, or cut to."""
    batch: int


@dataclass(frozen=True, kw_only=True)
class Compile(Record):
    """How one component is compiled."""

    component: str
    entry: str
    """The method that is compiled: `forward` or `decode`."""
    scope: str
    backend: str
    fullgraph: bool
    dynamic: bool
    mode: str | None
    options: tuple[tuple[str, Any], ...]


@dataclass(frozen=True, kw_only=True)
class ShardEntry:
    """One entry of a tensor-parallel plan."""

    pattern: str
    style: str
    blocks: tuple[int, ...] | None
    """Proportions of the fused blocks; None: none, or the Linear's own attribute says them."""
    origin: Span = field(compare=False, repr=False)


@dataclass(frozen=True, kw_only=True)
class TensorParallel(Record):
    """One denoiser's weights over the mesh axis `tp`."""

    component: str
    degree: int
    is_class_plan: bool
    """Whether the entries are the class's own, so that the script need not set them."""
    entries: tuple[ShardEntry, ...]
    sharded_bytes: int | None
    """Bytes of planned weights that each rank holds; None: the config is not known."""
    whole_bytes: int | None
    """Bytes of the denoiser that every rank holds whole; None: the number of parameters is not known."""


@dataclass(frozen=True, kw_only=True)
class SplitEntry:
    """One tensor of a context-parallel plan: split over the ranks, or gathered from them."""

    module: str
    """Module path; empty for the denoiser itself."""
    tensor: str | int | None
    """Name of the argument or index of the output that is split; None: the module's output is gathered."""
    dim: int
    expected_dims: int | None
    split_output: bool
    origin: Span = field(compare=False, repr=False)


@dataclass(frozen=True, kw_only=True)
class ContextParallel(Record):
    """One denoiser's sequence over the mesh axes `ring` and `ulysses`."""

    component: str
    ring_degree: int
    ulysses_degree: int
    convert_to_fp32: bool
    rotate_method: str
    ulysses_anything: bool
    ring_anything: bool
    is_class_plan: bool
    """Whether the entries are the class's own, so that the script need not give them."""
    entries: tuple[SplitEntry, ...]


@dataclass(frozen=True, kw_only=True)
class Scheduler(Record):
    """A scheduler that takes the place of the checkpoint's."""

    class_: str
    config: tuple[tuple[str, Any], ...]


@dataclass(frozen=True, kw_only=True)
class Component(Record):
    """A component beside the denoisers."""

    name: str
    role: str
    on_host: bool
    dtype: str
    tiling: bool
    slicing: bool


@dataclass(frozen=True, kw_only=True)
class Text:
    """How the pipeline's prompts are encoded."""

    length_keyword: str | None
    """Keyword of the call that takes the padded length."""
    encode: str
    encode_takes_length: bool
    encode_keywords: tuple[str, ...]
    encode_constants: tuple[tuple[str, Any], ...]
    returns: tuple[str, ...]
    """Keywords of the call that take what the encode method returns."""
    mask: str | None
    """Which of them is the padding mask."""
    negative: str
    """`none`, `given` or `always`."""
    image_area: int | None
    """Pixels that the pipeline resizes an input image to, where the text encoder sees it."""
    image_size_function: str
    """Function that gives the sides for that area; empty where there is none."""
    is_encoded_first: bool
    """Whether the script encodes before the call: the encoder's place or dtype differs, or the script pads."""
    is_padded: bool
    """Whether the script pads the embeddings to the shape's length, as the pipeline does not."""


@dataclass(frozen=True, kw_only=True)
class Launch(Record):
    """How the processes are started."""

    world_size: int
    timeout: int
    """Seconds."""
    env: tuple[tuple[str, str], ...]


@dataclass(frozen=True, kw_only=True)
class TargetProgram(Record):
    """One target, resolved."""

    name: str
    module: str
    """Name of the script without its ending."""
    device: str
    mode: str
    instance: str | None
    model: Model
    call: tuple[Argument, ...]
    seed: int
    shapes: tuple[Shape, ...]
    shapes_are_declared: bool
    compile: tuple[Compile, ...]
    mesh: tuple[tuple[str, int], ...]
    """Axes of the device mesh, outermost first, each with its degree; empty for a single process."""
    tensor_parallel: tuple[TensorParallel, ...]
    context_parallel: tuple[ContextParallel, ...]
    attention_backend: str | None
    scheduler: Scheduler | None
    output: str
    """Attribute of what the call returns: `images` or `frames`."""
    fps: int | None
    """Frames a second of a video."""
    batch_keyword: str
    """Keyword of the call that says how many are made for a prompt."""
    components: tuple[Component, ...]
    denoisers: tuple[str, ...]
    text: Text
    launch: Launch

    @property
    def is_parallel(self) -> bool:
        """Whether the script is started by torchrun, one process a rank."""
        return self.launch.world_size > 1

    @property
    def is_static(self) -> bool:
        """Whether each declared shape is a compiled graph, and another shape another graph."""
        return any(part.component in self.denoisers and not part.dynamic for part in self.compile)

    @property
    def fits_image(self) -> bool:
        """Whether an input image is cut to the shape's proportions, as its size decides how many tokens it becomes."""
        return self.opens_image and (self.is_static or bool(self.context_parallel))

    @property
    def opens_image(self) -> bool:
        """Whether the call takes an image."""
        return any(item.kind == "image" for item in self.call)


@dataclass(frozen=True, kw_only=True)
class Program:
    """A whole plan, resolved."""

    name: str
    """The plan's name."""
    folder: str
    """Name of its output folder."""
    file_name: str
    """Name of the plan file."""
    plan_digest: str
    """sha256 of the plan's text."""
    card_digest: str
    """sha256 of the cards it was resolved with."""
    targets: tuple[TargetProgram, ...]
