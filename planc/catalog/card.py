"""Model cards: what can be known of a transformer class without its weights.

A card is two files beside each other in `cards/`: `<class>.yaml`, written by hand with a source for each fact,
and `<class>.inventory.json`, which `planc sync` writes from diffusers on the meta device.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from planc.catalog import expression
from planc.catalog.expression import Number
from planc.located import Located, build

FOLDER = Path(__file__).parent / "cards"
DTYPE_BYTES = {"bfloat16": 2, "float16": 2, "float32": 4, "float64": 8}

CallKind = Literal["text", "integer", "number", "flag", "integers", "numbers", "image"]


@dataclass(frozen=True, kw_only=True)
class PipelineComponent:
    """One module of a pipeline beside its denoisers."""

    class_: str
    """Class of the module, in diffusers or transformers."""
    entry: Literal["forward", "decode", "none"]
    """The method through which the pipeline runs it; `none` for what holds no weights."""
    role: Literal["text_encoder", "vae", "other"] = "other"
    """What it does for the pipeline."""
    has_repeated_blocks: bool = False
    """Whether its class defines `_repeated_blocks`."""


@dataclass(frozen=True, kw_only=True)
class EncodedImage:
    """How a pipeline sizes an input image before its text encoder sees it."""

    area: int
    """Pixels that the image is resized to, about."""
    size_function: str
    """Function of diffusers, module and name, that gives width and height for an area and an aspect ratio."""


@dataclass(frozen=True, kw_only=True)
class Text:
    """How a pipeline turns prompts into embeddings."""

    length_keyword: str | None = None
    """Keyword of `__call__` that gives the padded length, where it takes one."""
    default_length: int
    """The length where nothing else is said, in tokens."""
    pads_to_length: bool
    """Whether every prompt is padded to that length, so that the text's shape is fixed."""
    encode: str
    """Method that returns the embeddings."""
    encode_takes_length: bool = True
    """Whether that method takes the length keyword too."""
    encode_keywords: tuple[str, ...] = ()
    """Other keywords of `__call__` that are passed on to the encode method."""
    encode_constants: Mapping[str, Any] = field(default_factory=dict)
    """Further keywords of the encode method, with the value that makes it encode one prompt and nothing else."""
    returns: tuple[str, ...]
    """Keywords of `__call__` that take what the encode method returns, in its order; the negative prompt's are called the same behind `negative_`."""
    mask: str | None = None
    """Which of them is the padding mask, where there is one. A pipeline that pads drops a mask that hides nothing."""
    negative: Literal["none", "given", "always"]
    """When the pipeline runs a negative prompt: never, where one is given, or an empty one where none is."""
    image: EncodedImage | None = None
    """How an input image is sized, where the text encoder sees it too."""


@dataclass(frozen=True, kw_only=True)
class Size:
    """A size that a pipeline makes."""

    height: int
    """Pixels."""
    width: int
    """Pixels."""
    num_frames: int | None = None
    """Frames of a video."""


@dataclass(frozen=True, kw_only=True)
class Pipeline:
    """A diffusers pipeline that runs the card's class."""

    denoisers: tuple[str, ...]
    """Components of the card's class: what parallelism and compilation apply to. A checkpoint may have others."""
    components: Mapping[str, PipelineComponent]
    """The other components."""
    call: Mapping[str, CallKind]
    """Keywords of `__call__` that a plan may say, and what kind of value each takes."""
    required: tuple[str, ...] = ()
    """Those without which the call cannot run, beside the prompt."""
    call_needs: Mapping[str, str] = field(default_factory=dict)
    """Those that the call refuses, and the value of the pipeline's own config without which it does."""
    batch_keyword: str = "num_images_per_prompt"
    """Keyword of `__call__` that says how many are made for a prompt."""
    output: Literal["images", "frames"] = "images"
    """Attribute of what the call returns."""
    fps: int | None = None
    """Frames a second that the model's videos are meant for."""
    text: Text
    """How prompts become embeddings."""
    default_size: Size
    """The size that the pipeline makes where nothing else is said."""
    tokens: Mapping[str, str] = field(default_factory=dict)
    """How height, width and frames become tokens, where it differs from the card's."""
    source: str
    """Where these facts were seen."""


@dataclass(frozen=True, kw_only=True)
class CheckpointPart:
    """A component of a released checkpoint, for what its weights cost."""

    name: str
    """Name of the released model, or of the class where it has none."""
    parameters: int
    """Number of parameters."""
    source: str
    """Where these facts were seen; UNCONFIRMED marks what was not."""


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """A released checkpoint."""

    pipeline: str
    """Class of its pipeline."""
    denoisers: tuple[str, ...] = ()
    """Its denoisers, where they are not all that the pipeline can have."""
    pipeline_config: Mapping[str, Any] = field(default_factory=dict)
    """Values of the pipeline's own config (`model_index.json`) that change what it runs."""
    numbers: Mapping[str, int] = field(default_factory=dict)
    """Those of the card's `numbers` that differ."""
    config: Mapping[str, Any]
    """Config of its denoisers: every number that the class takes."""
    parameters: int
    """Parameters of one denoiser."""
    parts: Mapping[str, CheckpointPart]
    """Its other components with weights."""
    tiny_vae: Mapping[str, Any] = field(default_factory=dict)
    """Values of the tiny VAE's config that differ, where the checkpoint's own VAE is another."""
    source: str
    """Where the config was seen."""


@dataclass(frozen=True, kw_only=True)
class Input:
    """A tensor that the denoiser's forward takes."""

    shape: tuple[str | int, ...]
    """One expression for each dim."""
    when: str | None = None
    """Flag of the denoiser's or the pipeline's config without which the input is not passed."""
    otherwise: tuple[str | int, ...] | None = None
    """Its shape without that flag, where it is passed all the same."""
    is_mask: bool = False
    """Whether it hides padding from the attention."""


@dataclass(frozen=True, kw_only=True)
class Tiny:
    """A small config of the same structure, for runs and proofs on a laptop."""

    config: Mapping[str, Any]
    """Config of the denoiser."""
    vae: Mapping[str, Any]
    """Config of the VAE."""
    scheduler: Mapping[str, Any] = field(default_factory=dict)
    """Config of the scheduler, where its class's defaults are not what the model needs."""
    size: Size
    """A size of image or video for it."""


@dataclass(frozen=True, kw_only=True)
class Facts:
    """The hand-written half of a card."""

    class_: str
    """Class of the transformer."""
    output: Literal["image", "video"]
    """What the pipelines make."""
    numbers: Mapping[str, int] = field(default_factory=dict)
    """Numbers beside the denoiser's config, such as what the VAE divides sizes by."""
    vae_numbers: Mapping[str, str] = field(default_factory=dict)
    """Those of `numbers` that the VAE's config says, and the key that says them."""
    size_multiple: str | int
    """Height and width must be multiples of this, in pixels; over the config, symbols and numbers."""
    frame_multiple: str | int | None = None
    """Frames must be one more than a multiple of this."""
    size_source: str
    """Where the multiple was seen."""
    heads: str
    """Number of attention heads, over the config."""
    symbols: Mapping[str, str]
    """Sizes that the Linears are made of, over the config, each may use those before it."""
    tokens: Mapping[str, str]
    """How height, width and frames become tokens."""
    inputs: Mapping[str, Input]
    """The forward's tensors."""
    modules: Mapping[str, Mapping[str, Input]] = field(default_factory=dict)
    """Tensors that go into modules, by argument, or come out of them, by index, as a context-parallel plan names them; `out` is a module's only output."""
    context_parallel_refused: Mapping[str, str] = field(default_factory=dict)
    """Kinds of context parallelism (`ring`, `ulysses`) that the class gets wrong, and why, with the source."""
    whole_linears: Mapping[str, str] = field(default_factory=dict)
    """Linears that none of the styles may cut, and why: a norm over all heads reads their output, for example."""
    pipelines: Mapping[str, Pipeline]
    """Pipelines that run the class."""
    checkpoints: Mapping[str, Checkpoint]
    """Released checkpoints by hub id."""
    tiny: Tiny
    """A small config of the same structure."""


@dataclass(frozen=True, kw_only=True)
class Linear:
    """Linears of one place in the structure: the same place in every block."""

    pattern: str
    """Module path, `*` for the index in a list of equal blocks."""
    count: str
    """How many there are, over the config and symbols."""
    in_features: str
    """Input features, over the config and symbols."""
    out_features: str
    """Output features, over the config and symbols."""
    bias: str
    """1 where there is a bias and 0 where there is none, over the config."""
    col_blocks: tuple[str, ...] | None = None
    """Fused blocks of the output features, where the Linear carries `_tp_packed_col_blocks`."""
    row_blocks: tuple[str, ...] | None = None
    """Fused blocks of the input features, where the Linear carries `_tp_packed_row_blocks`."""


@dataclass(frozen=True, kw_only=True)
class PlanEntry:
    """One entry of a class's own `_tp_plan`."""

    pattern: str
    """Module pattern."""
    style: str
    """`colwise`, `rowwise`, `packed_colwise` or `packed_rowwise`."""
    blocks: tuple[int, ...] | None = None
    """Proportions of the fused blocks; None: the Linear's own attribute says them."""


@dataclass(frozen=True, kw_only=True)
class SplitEntry:
    """One tensor of a context-parallel plan: split over the ranks, or gathered from them."""

    module: str
    """Module path; empty for the model itself."""
    tensor: str | None = None
    """Name of the argument or, all digits, index of the output that is split; None: the module's output is gathered."""
    dim: int
    """Dim along which it is split or gathered."""
    expected_dims: int | None = None
    """Number of dims that the tensor must have, else it is left whole."""
    split_output: bool = False
    """Whether an output of the module is split, not an argument."""


@dataclass(frozen=True, kw_only=True)
class Inventory:
    """The half of a card that is read from diffusers."""

    linears: tuple[Linear, ...]
    """Every Linear, in the order of the modules."""
    module_lists: Mapping[str, str]
    """Every `nn.ModuleList`: its path, and how long it is, over the config."""
    tp_plan: tuple[PlanEntry, ...]
    """The class's own `_tp_plan`; empty where it has none."""
    cp_plan: tuple[SplitEntry, ...] = ()
    """The class's own `_cp_plan`; empty where it has none."""
    repeated_blocks: tuple[str, ...] = field(default=())
    """The class's `_repeated_blocks`."""


@dataclass(frozen=True)
class Card:
    """What is known of one transformer class."""

    facts: Facts
    inventory: Inventory

    @property
    def class_name(self) -> str:
        """Name of the class."""
        return self.facts.class_

    @cached_property
    def known_config(self) -> frozenset[str]:
        """Config keys that the card's expressions need."""
        texts = [self.facts.heads, *self.facts.symbols.values(), *self.inventory.module_lists.values()]
        for linear in self.inventory.linears:
            texts += [linear.count, linear.in_features, linear.out_features]
        named = frozenset().union(*map(expression.names, texts))
        return named - set(self.facts.symbols) - set(self.facts.numbers)


def numbers(config: Mapping[str, Any]) -> dict[str, Number]:
    """The numbers of a config; those of a list are called by their index, `patch_size_0`."""
    known: dict[str, Number] = {}
    for key, item in config.items():
        if isinstance(item, int | float):
            known[key] = item
        elif isinstance(item, list | tuple):
            known |= {f"{key}_{index}": part for index, part in enumerate(item) if isinstance(part, int | float)}
    return known


def sizes(
    facts: Facts, config: Mapping[str, Any], others: Mapping[str, int] = MappingProxyType({})
) -> dict[str, Number]:
    """The numbers of `config`, those beside it (`others` win), and the card's symbols over them.

    Raises:
        KeyError: the config lacks a number that a symbol needs.
    """
    known: dict[str, Number] = {**facts.numbers, **others, **numbers(config)}
    for symbol, text in facts.symbols.items():
        known[symbol] = expression.evaluate(text, known)
    return known


def load_facts(class_name: str) -> Facts:
    """The hand-written half of a card."""
    facts: Facts = build(Facts, Located.of(raw_facts(class_name)), _incomplete)
    return facts


def class_names() -> tuple[str, ...]:
    """The classes that have a card, sorted."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.yaml")))


def raw_facts(class_name: str) -> dict[str, Any]:
    """The hand-written half of a card as plain data."""
    import yaml

    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    data: dict[str, Any] = yaml.load((FOLDER / f"{class_name}.yaml").read_text(encoding="utf-8"), Loader=loader)  # noqa: S506  # the safe loader in C
    return data


def inventory_path(class_name: str) -> Path:
    """The file of the other half."""
    return FOLDER / f"{class_name}.inventory.json"


@cache
def load(class_name: str) -> Card:
    """The card of `class_name`."""
    data = json.loads(inventory_path(class_name).read_text(encoding="utf-8"))
    inventory: Inventory = build(Inventory, Located.of(data), _incomplete)
    return Card(load_facts(class_name), inventory)


def _incomplete(path: tuple[str | int, ...], node: Located, key: str) -> None:
    raise ValueError(f"a model card lacks {key!r} in {path}, beside {sorted(node.value)}")
