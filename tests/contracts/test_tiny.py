"""Tiny pipelines: what is known of their folder is what is known of the checkpoint that they stand for."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import pytest

from planc.catalog import card, expression, lookup
from planc.commands.tiny import script_options

CHECKPOINTS = [name for known in map(card.load, card.class_names()) for name in known.facts.checkpoints]


@pytest.fixture(scope="module", params=CHECKPOINTS)
def saved(request: pytest.FixtureRequest, diffusers: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any]:
    """What is known of a checkpoint, and its tiny pipeline."""
    from planc.verify import tiny

    known = lookup.lookup(request.param, None)
    return known, tiny.save(known, tmp_path_factory.mktemp("tiny"))


def test_folder_is_known_like_its_checkpoint(saved: tuple[Any, Any]) -> None:
    """A tiny pipeline's folder has the checkpoint's class, denoisers, flags, VAE numbers and pipeline config."""
    known, made = saved
    found = lookup.lookup(str(made.folder), None)
    assert found.unknown == ""
    assert found.sizes is not None
    assert (found.pipeline_name, found.denoisers) == (known.pipeline_name, known.denoisers)
    assert known.pipeline_config.items() <= found.pipeline_config.items()
    kept = {key for key, item in known.sizes.items() if isinstance(item, bool)} | set(known.card.facts.numbers)
    assert {key: found.sizes[key] for key in kept} == {key: known.sizes[key] for key in kept}


def test_tiny_is_small_and_divisible(saved: tuple[Any, Any]) -> None:
    """A tiny pipeline is a few megabytes, and heads and tokens can be split over eight ranks."""
    known, made = saved
    assert sum(path.stat().st_size for path in made.folder.rglob("*") if path.is_file()) < 2**24
    config = known.card.facts.tiny.config
    assert expression.evaluate(known.card.facts.heads, config) % 8 == 0
    sizes = card.sizes(known.card.facts, config, known.checkpoint.numbers)
    sizes |= {"height": made.size.height, "width": made.size.width, "num_frames": made.size.num_frames or 1}
    for token, text in known.tokens.items():
        sizes[token] = expression.evaluate(text, sizes)
    assert sizes["image_tokens"] % 8 == 0


def test_options_of_the_script(saved: tuple[Any, Any]) -> None:
    """A script is told the tiny pipeline's folder and size, and an image where the pipeline takes one."""
    known, made = saved
    options = script_options(made)
    named = dict(zip(options[::2], options[1::2], strict=True))
    assert named["--checkpoint"] == str(made.folder)
    assert ("--num-frames" in named) is (known.card.facts.output == "video")
    assert ("--image" in named) is ("image" in known.pipeline.call)
    assert "--image" not in named or Path(named["--image"]).parent == made.folder


@pytest.mark.parametrize("name", ["QwenImagePipeline", "QwenImageEditPipeline"])
def test_system_message_is_as_long_as_the_release_s(name: str, diffusers: Any) -> None:
    """The tokens that Qwen-Image's pipelines cut off are exactly their system message with the tiny tokenizer too."""
    from planc.verify import tiny_tokenizers

    source = inspect.getsource(getattr(diffusers, name).__init__)
    template, cut = (re.search(rf"{key} = (.+)", source) for key in ("encode", "start_idx"))
    assert template is not None
    assert cut is not None
    message = template[1].encode().decode("unicode_escape").strip('"')
    before = re.split(r"<\|vision_start\|>|{}", message)[0]
    assert len(tiny_tokenizers.tokenizer("Qwen2Tokenizer")(before).input_ids) == int(cut[1])
