"""Every card's pipelines, tiny, against the installed diffusers: what a call makes, and what the denoiser then gets."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from planc.catalog import card, expression, lookup
from planc.catalog.card import Input

if TYPE_CHECKING:
    from tests.contracts.conftest import Loaded

CARDS = [card.load(name) for name in card.class_names()]
STEPS = 2
HEIGHT, WIDTH, TEXT_TOKENS, BATCH, PADDING, SHRUNK = 96, 64, 300, 2, 7, 256
"""The text is longer than FLUX.2 dev's system message, which takes two hundred of the tiny tokenizer's bytes."""
SAMPLES: dict[str, Any] = {
    "text": "a lighthouse at dusk",
    "integer": STEPS,
    "number": 3.0,
    "flag": True,
    "integers": [3, 5, 7],
    "numbers": [1.0, 0.5],
}
"""A value for each kind of call keyword, as a script's option gives it."""


def structures() -> dict[str, lookup.Lookup]:
    """One checkpoint of each structure, and each flag that adds a tensor to a module but no checkpoint sets."""
    found: dict[tuple[Any, ...], str] = {}
    for known in CARDS:
        for name, released in known.facts.checkpoints.items():
            flags = tuple(item for item in released.config.items() if isinstance(item[1], bool))
            found.setdefault((released.pipeline, flags, *released.pipeline_config.items()), name)
    cases = {name: lookup.lookup(name, None) for name in found.values()}
    qwen = cases["Qwen/Qwen-Image"]
    assert qwen.sizes is not None
    return cases | {"zero_cond_t": replace(qwen, sizes={**qwen.sizes, "zero_cond_t": True})}


STRUCTURES = structures()
UNPADDED = [name for name, item in STRUCTURES.items() if item.pipeline and not item.pipeline.text.pads_to_length]
Load = Callable[[str, lookup.Lookup], "Loaded"]
Look = dict[str, dict[str, tuple[int, ...]]]
"""Shapes that one call of a denoiser showed, by module and tensor; the denoiser itself has the empty name."""


@pytest.fixture(params=STRUCTURES)
def loaded(request: pytest.FixtureRequest, tiny_pipeline: Load) -> Loaded:
    """The tiny pipeline of each structure."""
    return tiny_pipeline(request.param, STRUCTURES[request.param])


@pytest.fixture
def small_references(monkeypatch: pytest.MonkeyPatch, diffusers: Any) -> None:
    """Let the edit pipeline make its input image small, which takes a thousand pixels a side and most of the time."""
    from diffusers.pipelines.qwenimage import pipeline_qwenimage_edit as edit

    real = edit.calculate_dimensions
    monkeypatch.setattr(edit, "calculate_dimensions", lambda area, ratio: real(area // SHRUNK, ratio))


def frames_of(loaded: Loaded) -> int | None:
    """The frames of a short video, where the pipeline makes one."""
    assert loaded.lookup.card is not None
    return loaded.lookup.card.facts.tiny.size.num_frames


def run(loaded: Loaded, torch: Any, **keywords: Any) -> Any:
    """What one call in the scripts' manner makes."""
    facts, frames = loaded.facts, frames_of(loaded)
    given: dict[str, Any] = {"height": HEIGHT, "width": WIDTH, "num_inference_steps": STEPS}
    given |= {facts.text.length_keyword: TEXT_TOKENS} if facts.text.length_keyword else {}
    given |= {"num_frames": frames} if frames is not None else {}
    given |= {"image": loaded.image} if loaded.image is not None else {}
    generator = torch.Generator().manual_seed(0)
    return getattr(loaded.pipe(**{**given, **keywords}, generator=generator, output_type="np"), facts.output)


def encoded(loaded: Loaded, torch: Any, prompt: str, *, image: Any = None, padding: int = 0) -> dict[str, Any]:
    """Keywords of the call that stand for a prompt; `padding` more tokens that the mask hides."""
    text, pipe = loaded.facts.text, loaded.pipe
    keywords: dict[str, Any] = {**text.encode_constants}
    keywords |= {text.length_keyword: TEXT_TOKENS} if text.encode_takes_length and text.length_keyword else {}
    keywords |= {"image": image or loaded.image} if text.image is not None else {}
    with torch.no_grad():
        made = getattr(pipe, text.encode)(prompt, device=pipe.text_encoder.device, **keywords)
    found = dict(zip(text.returns, made, strict=False))
    if padding:
        assert text.mask is not None
        embeds = found[text.returns[0]]
        mask = torch.ones(embeds.shape[:2], dtype=torch.long)
        found[text.returns[0]] = torch.nn.functional.pad(embeds, (0, 0, 0, padding))
        found[text.mask] = torch.nn.functional.pad(mask, (0, padding))
    return found


def negative(keywords: Mapping[str, Any]) -> dict[str, Any]:
    """The same for the negative prompt."""
    return {f"negative_{key}": item for key, item in keywords.items()}


@pytest.mark.usefixtures("small_references")
def test_size(loaded: Loaded, torch: Any) -> None:
    """A call makes what is asked for; a size that is no multiple is refused or made smaller, as rule P503 says."""
    assert loaded.lookup.card is not None
    facts, frames = loaded.lookup.card.facts, frames_of(loaded)
    sizes = sizes_of(loaded)
    shape = (1, HEIGHT, WIDTH, 3) if frames is None else (1, frames, HEIGHT, WIDTH, 3)
    made = run(loaded, torch, prompt="a lighthouse")
    assert made.shape == shape
    assert made.dtype == np.float32
    assert 0 <= made.min() < made.max() <= 1
    with contextlib.suppress(ValueError):
        off = expression.evaluate(str(facts.size_multiple), sizes) // 2
        assert run(loaded, torch, prompt="a lighthouse", height=HEIGHT + off).shape == shape
    if frames is not None:
        assert frames == 1 + expression.evaluate(str(facts.frame_multiple), sizes)
        assert run(loaded, torch, prompt="a lighthouse", num_frames=frames + 1).shape == shape


@pytest.mark.usefixtures("small_references")
def test_embeddings_stand_for_the_prompt(loaded: Loaded, torch: Any) -> None:
    """Embeddings that were made before the call give what the prompts give, the negative one's too."""
    text, calls = loaded.facts.text, loaded.facts.call
    guided = {"true_cfg_scale": 3.0} if "true_cfg_scale" in calls else {}
    embeds = encoded(loaded, torch, "a lighthouse", image=resized(loaded))
    wanted = run(loaded, torch, prompt="a lighthouse", **guided)
    assert np.abs(wanted - run(loaded, torch, prompt="a red bicycle", **guided)).max() > 1e-4
    if text.negative == "always":
        assert np.abs(wanted - run(loaded, torch, **embeds, **negative(encoded(loaded, torch, "")))).max() == 0
    else:
        assert np.abs(wanted - run(loaded, torch, **embeds, **guided)).max() == 0
    if "negative_prompt" in calls:
        against = negative(encoded(loaded, torch, "rain", image=resized(loaded)))
        said = run(loaded, torch, prompt="a lighthouse", negative_prompt="rain", **guided)
        assert np.abs(said - run(loaded, torch, **embeds, **against, **guided)).max() == 0
        assert np.abs(said - wanted).max() > 1e-5


@pytest.mark.parametrize("loaded", UNPADDED, indirect=True)
@pytest.mark.usefixtures("small_references")
def test_padding_changes_nothing(loaded: Loaded, torch: Any) -> None:
    """Where a pipeline does not pad, a script may: tokens that the mask hides leave the image as it is."""
    plain, padded = (
        encoded(loaded, torch, "a lighthouse", image=resized(loaded), padding=size) for size in (0, PADDING)
    )
    assert np.abs(run(loaded, torch, **plain) - run(loaded, torch, **padded)).max() < 1e-4


def resized(loaded: Loaded) -> Any:
    """The input image as the pipeline shows it to its text encoder; None where it takes none."""
    if loaded.facts.text.image is None:
        return None
    from diffusers.pipelines.qwenimage import pipeline_qwenimage_edit as edit

    size = edit.calculate_dimensions(loaded.facts.text.image.area, loaded.image.width / loaded.image.height)
    return loaded.pipe.image_processor.resize(loaded.image, size[1], size[0])


@pytest.mark.usefixtures("small_references")
def test_denoiser_gets_what_the_card_says(loaded: Loaded, torch: Any) -> None:
    """A call with every keyword of the card gives the forward, and its modules, the tensors and shapes of the card."""
    facts, known = loaded.facts, loaded.lookup
    assert known.card is not None
    size = (HEIGHT, WIDTH) if loaded.image is None else (loaded.image.height, loaded.image.width)
    said = {key: SAMPLES[kind] for key, kind in facts.call.items() if kind in SAMPLES}
    said = {key: item for key, item in said.items() if loaded.config.get(facts.call_needs.get(key, ""), "") is not None}
    if not facts.text.pads_to_length:
        embeds = encoded(loaded, torch, said.pop("prompt"), padding=PADDING)
        said |= embeds | negative(embeds)
        said.pop("negative_prompt")
    seen: dict[str, list[Look]] = {name: [] for name in known.denoisers}
    with contextlib.ExitStack() as hooks:
        for name, looks in seen.items():
            hooks.enter_context(watched(getattr(loaded.pipe, name), known.card.facts.modules, looks))
        run(loaded, torch, **said, **{facts.batch_keyword: BATCH}, height=size[0], width=size[1])
    assert all(seen.values()), "a denoiser was not called"
    first = next(iter(seen.values()))[0][""]
    assert first["hidden_states"][0] in (BATCH, 2 * BATCH), "a batch holds both guided halves, or one"
    assert first["encoder_hidden_states"][1] == TEXT_TOKENS or not facts.text.pads_to_length
    numbers = sizes_of(loaded)
    numbers |= {"height": size[0], "width": size[1], "num_frames": frames_of(loaded) or 1}
    numbers |= {"batch": first["hidden_states"][0], "text_tokens": first["encoder_hidden_states"][1]}
    area = facts.text.image.area if facts.text.image else 0
    for token, text in known.tokens.items():
        numbers[token] = expression.evaluate(text.replace(str(area), str(area // SHRUNK)) if area else text, numbers)
    wanted = {"": shapes(known.card.facts.inputs, loaded.config, numbers)}
    wanted |= {name: shapes(tensors, loaded.config, numbers) for name, tensors in known.card.facts.modules.items()}
    for look in (look for looks in seen.values() for look in looks):
        assert look == wanted


def sizes_of(loaded: Loaded) -> dict[str, Any]:
    """The numbers that the card's expressions are over."""
    assert loaded.lookup.card is not None
    released = loaded.lookup.checkpoint
    return card.sizes(loaded.lookup.card.facts, loaded.config, released.numbers if released else {})


def shapes(
    tensors: Mapping[str, Input], config: Mapping[str, Any], sizes: Mapping[str, Any]
) -> dict[str, tuple[int, ...]]:
    """The card's shapes of those tensors that are passed under `config`."""
    found = {}
    for key, item in tensors.items():
        shape = item.shape if item.when is None or config[item.when] else item.otherwise
        if shape is not None:
            found[key] = tuple(expression.evaluate(str(dim), sizes) for dim in shape)
    return found


@contextlib.contextmanager
def watched(denoiser: Any, modules: Mapping[str, Mapping[str, Input]], seen: list[Look]) -> Iterator[None]:
    """Note, for each call of the denoiser, the shapes of its tensors and of those that the card names in modules."""
    handles = []

    def enter(_: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        assert not arguments, "the pipeline passes positional arguments now"
        seen.append({"": {key: tuple(item.shape) for key, item in keywords.items() if hasattr(item, "shape")}})

    def look(module: Any, arguments: tuple[Any, ...], keywords: dict[str, Any], output: Any, *, pattern: str) -> None:
        given = inspect.signature(module.forward).bind(*arguments, **keywords).arguments
        outputs = output if isinstance(output, tuple) else (output,)
        found = {"out": output} if "out" in modules[pattern] else {}
        found |= {
            key: outputs[int(key)] if key.isdigit() else given.get(key) for key in modules[pattern] if key != "out"
        }
        noted = {key: tuple(item.shape) for key, item in found.items() if item is not None}
        assert seen[-1].setdefault(pattern, noted) == noted, f"{pattern} differs from one block to the next"

    handles.append(denoiser.register_forward_pre_hook(enter, with_kwargs=True))
    for pattern in modules:
        paths = [pattern]
        if pattern.endswith("*"):
            length = len(denoiser.get_submodule(pattern.removesuffix(".*")))
            paths = [pattern.replace("*", str(index)) for index in range(length)]
        for path in paths:
            hook = functools.partial(look, pattern=pattern)
            handles.append(denoiser.get_submodule(path).register_forward_hook(hook, with_kwargs=True))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


@pytest.mark.usefixtures("small_references")
def test_callback_after_each_step(loaded: Loaded, torch: Any) -> None:
    """The callback is called once a step, with the pipeline, the step, the timestep and a dictionary to give back."""
    steps = []

    def mark(_: Any, step: int, timestep: Any, keywords: dict[str, Any]) -> dict[str, Any]:
        steps.append(step)
        return keywords

    run(loaded, torch, prompt="a lighthouse", callback_on_step_end=mark)
    assert steps == list(range(STEPS))
