"""Every card's pipelines against the installed diffusers: signatures, text, sizes, and what the forward really gets."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from planc.catalog import card, expression
from planc.catalog.card import Card, Pipeline

CARDS = [card.load(name) for name in card.class_names()]
PIPELINES = [pytest.param(known, name, id=name) for known in CARDS for name in known.facts.pipelines]

OWNED = ("height", "width", "num_images_per_prompt", "generator", "output_type", "callback_on_step_end")
"""Keywords of `__call__` that the scripts set themselves."""
STEPS = 2
SAMPLES = {
    "text": "a lighthouse at dusk",
    "integer": STEPS,
    "number": 3.0,
    "flag": True,
    "integers": [3, 5, 7],
    "numbers": [1.0, 0.5],
}
"""A value for each kind of call keyword, as a script's option gives it."""
HEIGHT, WIDTH, TEXT_TOKENS, BATCH = 96, 64, 300, 2
"""The text is longer than FLUX.2 dev's system message, which takes two hundred of the tiny tokenizer's bytes."""

Tiny = Callable[[Card, str], Any]


def facts_of(known: Card, name: str) -> Pipeline:
    """The card's facts of a pipeline."""
    return known.facts.pipelines[name]


def signature(callable_: Any) -> dict[str, inspect.Parameter]:
    """Parameters by name, without self."""
    return {name: item for name, item in inspect.signature(callable_).parameters.items() if name != "self"}


def run(pipe: Any, torch: Any, **keywords: Any) -> Any:
    """The images of one call in the scripts' manner."""
    given = {"height": HEIGHT, "width": WIDTH, "num_inference_steps": STEPS, "max_sequence_length": TEXT_TOKENS}
    return pipe(**{**given, **keywords}, generator=torch.Generator().manual_seed(0), output_type="np").images


@pytest.mark.parametrize(("known", "name"), PIPELINES)
def test_call_keywords(known: Card, name: str, diffusers: Any) -> None:
    """A pipeline's `__call__` takes every keyword that a plan may say and every one that a script sets."""
    facts = facts_of(known, name)
    taken = signature(getattr(diffusers, name).__call__)
    text = facts.text
    wanted = {*facts.call, *OWNED, text.length_keyword, text.embeds, text.negative_embeds or text.embeds}
    assert wanted <= set(taken), f"{name}.__call__ lost {sorted(wanted - set(taken))}"
    if text.negative_embeds is None:
        assert "negative_prompt_embeds" not in taken, f"{name} takes negative embeddings now: say so in the card"
    assert not set(facts.call) & {*OWNED, text.length_keyword, text.embeds, text.negative_embeds}


@pytest.mark.parametrize(("known", "name"), PIPELINES)
def test_encode_signature(known: Card, name: str, diffusers: Any) -> None:
    """The encode method takes the prompt first, the device and the length by name, and the card's other keywords."""
    facts = facts_of(known, name)
    taken = signature(getattr(getattr(diffusers, name), facts.text.encode))
    assert next(iter(taken)) == "prompt"
    assert {"device", facts.text.length_keyword} <= set(taken)
    assert set(facts.text.encode_keywords) == set(facts.call) & set(taken) - {"prompt"}


@pytest.mark.parametrize(("known", "name"), PIPELINES)
def test_default_length(known: Card, name: str, diffusers: Any) -> None:
    """Where nothing is said, the call and the encode method pad prompts to the card's length."""
    text, pipeline = facts_of(known, name).text, getattr(diffusers, name)
    for method in (pipeline.__call__, getattr(pipeline, text.encode)):
        assert signature(method)[text.length_keyword].default == text.default_length


@pytest.mark.parametrize(("known", "name"), PIPELINES)
def test_components(known: Card, name: str, diffusers: Any) -> None:
    """A pipeline is made of the components that its card names, of the classes that it names."""
    import transformers

    facts = facts_of(known, name)
    taken = signature(getattr(diffusers, name).__init__)
    modules = {key: item.annotation for key, item in taken.items() if item.default is inspect.Parameter.empty}
    said = {key: part.class_ for key, part in facts.components.items()}
    said |= dict.fromkeys(facts.denoisers, known.class_name)
    classes = {key: getattr(diffusers, item, None) or getattr(transformers, item, None) for key, item in said.items()}
    assert modules == classes


@pytest.mark.parametrize(("known", "name"), PIPELINES)
def test_sizes(known: Card, name: str, tiny_pipeline: Tiny) -> None:
    """A pipeline's default size and the multiple that sizes must have are its card's."""
    pipe, facts = tiny_pipeline(known, name), facts_of(known, name)
    side = pipe.default_sample_size * pipe.vae_scale_factor
    assert (facts.default_size.height, facts.default_size.width) == (side, side)
    assert pipe.vae_scale_factor * 2 == known.facts.size_multiple
    tiny = known.facts.tiny.size
    assert (tiny.height % known.facts.size_multiple, tiny.width % known.facts.size_multiple) == (0, 0)


@pytest.mark.parametrize(("known", "name"), PIPELINES)
def test_vae_of_the_class_has_the_same_scale(known: Card, name: str, diffusers: Any, tiny_pipeline: Tiny) -> None:
    """The tiny VAE shrinks an image as much as the class's default does, so that token counts carry over."""
    default = inspect.signature(getattr(diffusers, facts_of(known, name).components["vae"].class_).__init__)
    blocks = default.parameters["block_out_channels"].default
    assert tiny_pipeline(known, name).vae_scale_factor == 2 ** (len(blocks) - 1)


@pytest.mark.parametrize(("known", "name"), PIPELINES)
def test_misaligned_size_shrinks(known: Card, name: str, tiny_pipeline: Tiny, torch: Any) -> None:
    """A size that is no multiple makes a smaller image and no error: what rule P503 warns of."""
    images = run(tiny_pipeline(known, name), torch, prompt="a lighthouse", height=HEIGHT + 4)
    assert images.shape == (1, HEIGHT, WIDTH, 3)


@pytest.mark.parametrize(("known", "name"), PIPELINES)
def test_prompts_are_padded(known: Card, name: str, tiny_pipeline: Tiny, torch: Any) -> None:
    """Embeddings come first, and as long as asked for, whether the prompt is short, long or too long."""
    pipe, text = tiny_pipeline(known, name), facts_of(known, name).text
    lengths = set()
    with torch.no_grad():
        for prompt in ("", "a lighthouse", "a lighthouse at dusk " * 40):
            embeds = getattr(pipe, text.encode)(prompt, device=pipe.text_encoder.device, max_sequence_length=400)[0]
            lengths.add(tuple(embeds.shape))
    assert text.pads_to_length is (len(lengths) == 1)
    assert lengths == {(1, 400, known.facts.tiny.config["joint_attention_dim"])}


@pytest.mark.parametrize(("known", "name"), PIPELINES)
def test_embeddings_stand_for_the_prompt(known: Card, name: str, tiny_pipeline: Tiny, torch: Any) -> None:
    """Embeddings that were made before the call give the image that the prompt gives."""
    pipe, text = tiny_pipeline(known, name), facts_of(known, name).text
    encode = getattr(pipe, text.encode)
    where = {"device": pipe.text_encoder.device, text.length_keyword: TEXT_TOKENS}
    with torch.no_grad():
        embeds = {text.embeds: encode("a lighthouse", **where)[0]}
        if text.negative_embeds is not None:
            embeds[text.negative_embeds] = encode("", **where)[0]
    wanted = run(pipe, torch, prompt="a lighthouse")
    assert np.abs(wanted - run(pipe, torch, **embeds)).max() == 0
    assert np.abs(wanted - run(pipe, torch, prompt="a red bicycle")).max() > 1e-3


@pytest.mark.parametrize(("known", "name"), PIPELINES)
def test_forward_gets_what_the_card_says(known: Card, name: str, tiny_pipeline: Tiny, torch: Any) -> None:
    """A call with every keyword of the card passes the forward the tensors of the card, in the card's shapes."""
    pipe, facts = tiny_pipeline(known, name), facts_of(known, name)
    seen: list[dict[str, tuple[int, ...]]] = []

    def look(_: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        assert not arguments, "the pipeline passes positional arguments now"
        seen.append({key: tuple(item.shape) for key, item in keywords.items() if torch.is_tensor(item)})

    hook = pipe.transformer.register_forward_pre_hook(look, with_kwargs=True)
    try:
        said = {keyword: SAMPLES[kind] for keyword, kind in facts.call.items()}
        images = run(pipe, torch, **said, num_images_per_prompt=BATCH)
    finally:
        hook.remove()
    config = dict(pipe.transformer.config)
    sizes = card.sizes(known.facts, config)
    sizes |= {"batch": BATCH, "height": HEIGHT, "width": WIDTH, "text_tokens": TEXT_TOKENS}
    for token, text in known.facts.tokens.items():
        sizes[token] = expression.evaluate(text, sizes)
    wanted = {
        key: tuple(expression.evaluate(str(dim), sizes) for dim in item.shape)
        for key, item in known.facts.inputs.items()
        if item.when is None or config[item.when]
    }
    assert len(seen) >= STEPS
    assert all(shapes == wanted for shapes in seen), seen[0]
    assert images.shape == (BATCH, HEIGHT, WIDTH, 3)
    assert images.dtype == np.float32
    assert 0 <= images.min() < images.max() <= 1


@pytest.mark.parametrize("known", CARDS, ids=[known.class_name for known in CARDS])
def test_inputs_are_the_tensors_of_the_forward(known: Card, diffusers: Any) -> None:
    """A card's inputs are exactly the parameters of the forward that are tensors."""
    taken = signature(getattr(diffusers, known.class_name).forward)
    tensors = {key for key, item in taken.items() if "Tensor" in str(item.annotation)}
    assert set(known.facts.inputs) == tensors


@pytest.mark.parametrize(("known", "name"), PIPELINES)
def test_callback_after_each_step(known: Card, name: str, tiny_pipeline: Tiny, torch: Any) -> None:
    """The callback is called once a step, with the pipeline, the step, the timestep and a dictionary to give back."""
    steps = []

    def mark(_: Any, step: int, timestep: Any, keywords: dict[str, Any]) -> dict[str, Any]:
        steps.append(step)
        return keywords

    run(tiny_pipeline(known, name), torch, prompt="a lighthouse", callback_on_step_end=mark)
    assert steps == list(range(STEPS))


@pytest.mark.parametrize(("known", "name"), PIPELINES)
def test_data_type_by_component(known: Card, name: str, diffusers: Any, torch: Any, tiny_pipeline: Tiny) -> None:
    """`from_pretrained` takes a data type for each component, and the ready denoiser in place of the saved one."""
    folder = tiny_pipeline(known, name).config._name_or_path
    transformer = tiny_pipeline(known, name).transformer
    dtypes = {"default": torch.bfloat16, "vae": torch.float32}
    pipe = getattr(diffusers, name).from_pretrained(folder, transformer=transformer, dtype=dtypes)
    assert pipe.transformer is transformer
    assert (pipe.vae.dtype, pipe.text_encoder.dtype) == (torch.float32, torch.bfloat16)
    assert next(transformer.parameters()).dtype == torch.float32


@pytest.mark.parametrize(("known", "name"), PIPELINES)
def test_download(known: Card, name: str, diffusers: Any) -> None:
    """A pipeline class can fetch a checkpoint of a revision, a variant and a format without loading it."""
    download = getattr(diffusers, name).download
    assert next(iter(signature(download))) == "pretrained_model_name"
    for keyword in ("revision", "variant", "use_safetensors"):
        assert f'"{keyword}"' in inspect.getsource(download), f"DiffusionPipeline.download lost {keyword}"
