"""Every card's pipelines against the installed diffusers: signatures, components, and how prompts are encoded."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from planc.catalog import card, expression, lookup
from planc.catalog.card import Card, Pipeline

if TYPE_CHECKING:
    from tests.contracts.conftest import Loaded

CARDS = [card.load(name) for name in card.class_names()]
PIPELINES = [pytest.param(known, name, id=name) for known in CARDS for name in known.facts.pipelines]

OWNED = ("height", "width", "generator", "output_type", "callback_on_step_end")
"""Keywords of `__call__` that the scripts set themselves, beside the card's."""
ENCODED = ("prompt", "negative_prompt", "image")
"""Keywords of `__call__` that a script gives to the encode method under no keyword of the card."""
LENGTH = 400
"""Longer than FLUX.2 dev's system message, which takes two hundred of the tiny tokenizer's bytes."""

RELEASED_VAE = {
    "AutoencoderKL": {
        "block_out_channels": [128, 256, 512, 512],
        "down_block_types": ["DownEncoderBlock2D"] * 4,
        "up_block_types": ["UpDecoderBlock2D"] * 4,
    }
}
"""How deep the released VAE is, where the class's default is not what was released: FLUX.1's is that of SD3.5."""

Load = Callable[[str, lookup.Lookup], "Loaded"]


def facts_of(known: Card, name: str) -> Pipeline:
    """The card's facts of a pipeline."""
    return known.facts.pipelines[name]


def signature(callable_: Any) -> dict[str, inspect.Parameter]:
    """Parameters by name, without self."""
    return {name: item for name, item in inspect.signature(callable_).parameters.items() if name != "self"}


@pytest.fixture
def loaded(known: Card, name: str, tiny_pipeline: Load) -> Loaded:
    """The tiny pipeline of the first checkpoint that has the pipeline."""
    checkpoint = next(key for key, item in known.facts.checkpoints.items() if item.pipeline == name)
    return tiny_pipeline(checkpoint, lookup.lookup(checkpoint, None))


@pytest.mark.parametrize(("known", "name"), PIPELINES)
def test_call_keywords(known: Card, name: str, diffusers: Any) -> None:
    """A pipeline's `__call__` takes every keyword that a plan may say and every one that a script sets."""
    facts = facts_of(known, name)
    taken = signature(getattr(diffusers, name).__call__)
    text = facts.text
    set_by_scripts = {*OWNED, facts.batch_keyword, *text.returns}
    set_by_scripts |= {text.length_keyword} if text.length_keyword else set()
    set_by_scripts |= {"num_frames"} if facts.output == "frames" else set()
    negative = {f"negative_{keyword}" for keyword in text.returns}
    if text.negative == "none":
        assert not negative & set(taken), f"{name} takes negative embeddings now: say so in the card"
    else:
        set_by_scripts |= negative
    wanted = {*facts.call, *set_by_scripts}
    assert wanted <= set(taken), f"{name}.__call__ lost {sorted(wanted - set(taken))}"
    assert not set(facts.call) & set_by_scripts
    assert text.mask is None or text.mask in text.returns
    assert {*facts.required, *facts.call_needs} <= set(facts.call)
    assert set(facts.call_needs.values()) <= set(signature(getattr(diffusers, name).__init__))


@pytest.mark.parametrize(("known", "name"), PIPELINES)
def test_encode_signature(known: Card, name: str, diffusers: Any) -> None:
    """The encode method takes the prompt first, the device and the length by name, and the card's other keywords."""
    facts = facts_of(known, name)
    text = facts.text
    taken = signature(getattr(getattr(diffusers, name), text.encode))
    assert next(iter(taken)) == "prompt"
    assert {"device", *text.encode_constants} <= set(taken)
    assert not text.encode_takes_length or text.length_keyword in taken
    assert set(text.encode_keywords) == (set(facts.call) & set(taken)) - set(ENCODED)
    assert (text.image is not None) is ("image" in taken)


@pytest.mark.parametrize(("known", "name"), PIPELINES)
def test_default_length(known: Card, name: str, diffusers: Any) -> None:
    """Where nothing is said, the call takes prompts of the card's length."""
    text = facts_of(known, name).text
    if text.length_keyword is not None:
        assert signature(getattr(diffusers, name).__call__)[text.length_keyword].default == text.default_length


@pytest.mark.parametrize(("known", "name"), PIPELINES)
def test_components(known: Card, name: str, diffusers: Any) -> None:
    """A pipeline is made of the components that its card names, of the classes that it names."""
    import transformers

    facts = facts_of(known, name)
    taken = signature(getattr(diffusers, name).__init__)
    said = {key: part.class_ for key, part in facts.components.items()} | dict.fromkeys(
        facts.denoisers, known.class_name
    )
    assert {key for key, item in taken.items() if item.default is inspect.Parameter.empty} <= set(said) <= set(taken)
    hints = typing.get_type_hints(getattr(diffusers, name).__init__)
    for key, class_name in said.items():
        found = getattr(diffusers, class_name, None) or getattr(transformers, class_name)
        wanted = set(typing.get_args(hints[key]) or (hints[key],))
        if key == "scheduler":  # which one is the checkpoint's choice
            assert issubclass(found, diffusers.SchedulerMixin)
        elif key == "tokenizer" and transformers.AutoTokenizer in wanted:
            assert issubclass(found, transformers.PreTrainedTokenizerBase)
        else:
            assert found in wanted, f"{name}.{key} is a {wanted}"


@pytest.mark.parametrize(("known", "name"), PIPELINES)
def test_default_size(known: Card, name: str, diffusers: Any, loaded: Loaded) -> None:
    """A pipeline's size where nothing is said is its card's, and fits the card's multiples, as the tiny size does."""
    facts, pipe, taken = facts_of(known, name), loaded.pipe, signature(getattr(diffusers, name).__call__)
    side = pipe.default_sample_size * pipe.vae_scale_factor if hasattr(pipe, "default_sample_size") else None
    size = facts.default_size
    assert (size.height, size.width) == tuple(taken[key].default or side for key in ("height", "width"))
    assert size.num_frames == (taken["num_frames"].default if facts.output == "frames" else None)
    sizes = card.sizes(known.facts, dict(loaded.config))
    for made in (size, known.facts.tiny.size):
        multiple = expression.evaluate(str(known.facts.size_multiple), sizes)
        assert (made.height % multiple, made.width % multiple) == (0, 0)
        if known.facts.frame_multiple is not None:
            assert made.num_frames is not None
            assert made.num_frames % expression.evaluate(str(known.facts.frame_multiple), sizes) == 1


@pytest.mark.parametrize(("known", "name"), PIPELINES)
def test_vae_of_the_class_has_the_same_scale(
    known: Card, name: str, loaded: Loaded, on_meta: Callable[..., Any]
) -> None:
    """The tiny VAE shrinks as much as the released one does, so that token counts carry over."""
    class_name = facts_of(known, name).components["vae"].class_
    released = on_meta(class_name, RELEASED_VAE.get(class_name, {}))
    pipe = type(loaded.pipe)(**{**loaded.pipe.components, "vae": released})
    scales = {key: item for key, item in vars(pipe).items() if key.startswith("vae_")}
    assert scales
    assert scales == {key: getattr(loaded.pipe, key) for key in scales}


@pytest.mark.parametrize(("known", "name"), PIPELINES)
def test_prompts_are_padded(known: Card, name: str, loaded: Loaded, torch: Any) -> None:
    """Embeddings come first, of one length where the card says so, and never longer than asked for."""
    text, pipe = loaded.facts.text, loaded.pipe
    keywords: dict[str, Any] = {**text.encode_constants}
    keywords |= {text.length_keyword: LENGTH} if text.encode_takes_length and text.length_keyword else {}
    keywords |= {"image": loaded.image} if text.image is not None else {}
    shapes = []
    with torch.no_grad():
        for prompt in ("", "a lighthouse", "a lighthouse at dusk " * 40):
            made = getattr(pipe, text.encode)(prompt, device=pipe.text_encoder.device, **keywords)
            shapes.append(tuple(made[0].shape))
    lengths = {shape[1] for shape in shapes}
    assert lengths == {LENGTH} if text.pads_to_length else len(lengths) == 3
    assert not text.encode_takes_length or max(lengths) <= LENGTH
    width = expression.evaluate(str(known.facts.inputs["encoder_hidden_states"].shape[-1]), dict(loaded.config))
    assert {(shape[0], shape[2]) for shape in shapes} == {(1, width)}


@pytest.mark.parametrize("known", CARDS, ids=[known.class_name for known in CARDS])
def test_inputs_are_the_tensors_of_the_forward(known: Card, diffusers: Any) -> None:
    """A card's inputs are parameters of the forward that are tensors, and every one of those without a default."""
    taken = signature(getattr(diffusers, known.class_name).forward)
    tensors = {key: item for key, item in taken.items() if "Tensor" in str(item.annotation)}
    required = {key for key, item in tensors.items() if item.default is inspect.Parameter.empty}
    assert required <= set(known.facts.inputs) <= set(tensors)


@pytest.mark.parametrize(("known", "name"), PIPELINES)
def test_data_type_by_component(known: Card, name: str, diffusers: Any, torch: Any, loaded: Loaded) -> None:
    """`from_pretrained` takes a data type for each component, and the ready denoiser in place of the saved one."""
    transformer = loaded.pipe.transformer
    dtypes = {"default": torch.bfloat16, "vae": torch.float32}
    pipe = getattr(diffusers, name).from_pretrained(
        loaded.pipe.config._name_or_path, transformer=transformer, dtype=dtypes
    )
    assert pipe.transformer is transformer
    encoders = [key for key, part in facts_of(known, name).components.items() if part.role == "text_encoder"]
    assert {getattr(pipe, key).dtype for key in encoders} == {torch.bfloat16}
    assert pipe.vae.dtype == torch.float32
    assert next(transformer.parameters()).dtype == torch.float32


@pytest.mark.parametrize(("known", "name"), PIPELINES)
def test_download(known: Card, name: str, diffusers: Any) -> None:
    """A pipeline class can fetch a checkpoint of a revision, a variant and a format without loading it."""
    download = getattr(diffusers, name).download
    assert next(iter(signature(download))) == "pretrained_model_name"
    for keyword in ("revision", "variant", "use_safetensors"):
        assert f'"{keyword}"' in inspect.getsource(download), f"DiffusionPipeline.download lost {keyword}"
