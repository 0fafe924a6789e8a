"""Every card against the installed diffusers: structure, parameters and plans, on the meta device."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from planc.catalog import card, expression, lookup
from planc.catalog.card import DTYPE_BYTES, PipelineComponent
from planc.ir import Program

CARDS = {name: card.load(name) for name in card.class_names()}
CHECKPOINTS = [(name, checkpoint) for name, known in CARDS.items() for checkpoint in known.facts.checkpoints]
PLANNED = [(name, checkpoint) for name, checkpoint in CHECKPOINTS if CARDS[name].inventory.tp_plan]
COMPONENTS = {
    part.class_: part
    for known in CARDS.values()
    for facts in known.facts.pipelines.values()
    for part in facts.components.values()
}


@pytest.mark.parametrize("name", CARDS)
def test_card_validates(name: str, root: Path) -> None:
    """Every card is valid against the committed schema of cards."""
    schema = json.loads((root / "schemas" / "card.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    faults = list(jsonschema.Draft202012Validator(schema).iter_errors(card.raw_facts(name)))
    assert not faults, [f"{'.'.join(map(str, fault.absolute_path))}: {fault.message}" for fault in faults]


@pytest.mark.parametrize("name", CARDS)
def test_inventory_is_in_step(name: str, diffusers: Any) -> None:
    """Every card's inventory is what the installed diffusers gives: `planc sync --check`."""
    from planc.verify import inventory

    path = card.inventory_path(name)
    fresh = inventory.dump(inventory.generate(name))
    diff = difflib.unified_diff(
        path.read_text(encoding="utf-8").splitlines(), fresh.splitlines(), path.name, "diffusers"
    )
    assert path.read_text(encoding="utf-8") == fresh, "run `planc sync`:\n" + "\n".join(diff)


@pytest.mark.parametrize(("name", "checkpoint"), CHECKPOINTS)
def test_parameters(name: str, checkpoint: str, on_meta: Callable[..., Any]) -> None:
    """Every released checkpoint's denoiser has as many parameters as its card says."""
    released = CARDS[name].facts.checkpoints[checkpoint]
    model = on_meta(name, released.config)
    assert sum(item.numel() for item in model.parameters()) == released.parameters


@pytest.mark.parametrize(("name", "checkpoint"), CHECKPOINTS)
def test_config_is_whole(name: str, checkpoint: str, on_meta: Callable[..., Any]) -> None:
    """Every number of a card's config is a parameter of the class, and the tiny config has the same keys."""
    released = CARDS[name].facts.checkpoints[checkpoint]
    known = dict(on_meta(name, released.config).config)
    assert {key: known.get(key) for key in released.config} == dict(released.config)
    assert set(CARDS[name].facts.tiny.config) == set(released.config)
    assert set(CARDS[name].known_config) <= set(card.numbers(released.config))


@pytest.mark.parametrize(("name", "checkpoint"), CHECKPOINTS)
def test_inventory_covers_the_checkpoint(name: str, checkpoint: str, on_meta: Callable[..., Any], torch: Any) -> None:
    """The inventory's expressions give every Linear of every released checkpoint its count, size and bias."""
    known = CARDS[name]
    sizes = card.sizes(known.facts, known.facts.checkpoints[checkpoint].config)
    model = on_meta(name, known.facts.checkpoints[checkpoint].config)
    linears = [module for module in model.modules() if isinstance(module, torch.nn.Linear)]
    seen: dict[tuple[int, int, bool], int] = {}
    for linear in linears:
        key = (linear.in_features, linear.out_features, linear.bias is not None)
        seen[key] = seen.get(key, 0) + 1
    said: dict[tuple[int, int, bool], int] = {}
    for item in known.inventory.linears:
        key = (
            expression.evaluate(item.in_features, sizes),
            expression.evaluate(item.out_features, sizes),
            bool(expression.evaluate(item.bias, sizes)),
        )
        said[key] = said.get(key, 0) + expression.evaluate(item.count, sizes)
    assert {key: count for key, count in said.items() if count} == seen


@pytest.mark.parametrize("name", CARDS)
def test_split_tensors_are_known(name: str) -> None:
    """A card says the shape of every tensor that the class's own context-parallel plan names, with as many dims."""
    facts, entries = CARDS[name].facts, CARDS[name].inventory.cp_plan
    assert entries
    for entry in entries:
        tensors = facts.modules[entry.module] if entry.module else facts.inputs
        shape = tensors[entry.tensor or "out"].shape
        assert entry.expected_dims == len(shape), f"{entry.module}.{entry.tensor} is {shape}"
        assert entry.dim < len(shape)
        assert (entry.tensor or "").isdigit() is entry.split_output
    named = {(entry.module, entry.tensor or "out") for entry in entries}
    assert named >= {(module, tensor) for module, tensors in facts.modules.items() for tensor in tensors}


@pytest.mark.parametrize("name", CARDS)
def test_whole_linears_are_read_across_heads(name: str, on_meta: Callable[..., Any]) -> None:
    """A card keeps attention whole exactly where a norm spans all heads: those projections and their partners."""
    known = CARDS[name]
    model = on_meta(name, known.facts.tiny.config)
    sizes = card.sizes(known.facts, known.facts.tiny.config)
    wide = set()
    for path, module in model.named_modules():
        weight = getattr(getattr(module, "norm_q", None), "weight", None)
        if weight is not None and weight.numel() > sizes["attention_head_dim"]:
            wide |= {f"{path.replace('.0.', '.*.')}.{part}" for part in ("to_q", "to_k", "to_v", "to_out.0")}
    patterns = {linear.pattern for linear in known.inventory.linears}
    assert set(known.facts.whole_linears) == wide & patterns


@pytest.mark.parametrize(("width", "height"), [(1, 1), (3, 2), (2, 3), (16, 9), (1664, 928), (333, 1000), (1023, 77)])
def test_reference_tokens(width: int, height: int, diffusers: Any) -> None:
    """The edit pipeline's tokens are those of its output and of its input image, as diffusers resizes that."""
    from diffusers.pipelines.qwenimage.pipeline_qwenimage_edit import calculate_dimensions

    known = lookup.lookup("Qwen/Qwen-Image-Edit", None)
    assert known.pipeline is not None
    assert known.pipeline.text.image is not None
    sizes: dict[str, expression.Number] = {"height": height * 16, "width": width * 16}
    for token, text in known.tokens.items():
        sizes[token] = expression.evaluate(text, sizes)
    wide, high, _ = calculate_dimensions(known.pipeline.text.image.area, width / height)
    assert (sizes["reference_width"], sizes["reference_height"]) == (wide, high)
    assert sizes["image_tokens"] == height * width + high // 16 * (wide // 16)
    module, _, function = known.pipeline.text.image.size_function.rpartition(".")
    assert (calculate_dimensions.__module__, calculate_dimensions.__name__) == (module, function)


@pytest.mark.parametrize("degree", [2, 4, 8])
@pytest.mark.parametrize(("name", "checkpoint"), PLANNED)
def test_bytes_of_the_class_plan(
    name: str,
    checkpoint: str,
    degree: int,
    on_meta: Callable[..., Any],
    diffusers: Any,
    resolve: Callable[..., Program],
) -> None:
    """A program's sharded and whole bytes are those that diffusers' own code would cut and leave."""
    from diffusers.hooks.tensor_parallel import resolve_tp_shard_specs

    released = CARDS[name].facts.checkpoints[checkpoint]
    model = on_meta(name, released.config)
    specs = resolve_tp_shard_specs(model, getattr(diffusers, name)._tp_plan, degree)
    sizes = {parameter: item.numel() for parameter, item in model.named_parameters()}
    cut = sum(sizes[parameter] for parameter, spec in specs.items() if spec.dim is not None)
    program = resolve(
        f"version: 1\nmodel: {{pipeline: {released.pipeline}, checkpoint: {checkpoint}}}\ntargets:\n"
        f"  tp: {{device: cuda, mode: eager, tensor_parallel: {{degree: {degree}, plan: class}}}}\n"
    )
    target = program.targets[0]
    width = DTYPE_BYTES[target.model.dtype]
    assert target.tensor_parallel[0].sharded_bytes == cut * width // degree
    assert target.tensor_parallel[0].whole_bytes == (sum(sizes.values()) - cut) * width


@pytest.mark.parametrize("part", COMPONENTS.values(), ids=COMPONENTS)
def test_component_class(part: PipelineComponent, diffusers: Any) -> None:
    """Every component's class exists, has the method that the pipeline calls, and repeated blocks as the card says."""
    import transformers

    found = getattr(diffusers, part.class_, None) or getattr(transformers, part.class_, None)
    assert found is not None, f"neither diffusers nor transformers has {part.class_}"
    assert part.entry == "none" or callable(getattr(found, part.entry, None)), f"{part.class_} has no {part.entry}"
    assert bool(getattr(found, "_repeated_blocks", None)) is part.has_repeated_blocks
    if part.role == "vae":
        assert callable(found.enable_tiling)
        assert callable(found.enable_slicing)
    if part.has_repeated_blocks:
        assert callable(found.compile_repeated_blocks)
