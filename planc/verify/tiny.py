"""Saves a tiny random pipeline of a card's structure: what a laptop and the proofs run on. No network.

Weights are random but the same for the same seed; the tokenizers know bytes only. Images of it mean nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from planc.catalog.card import Card, PipelineComponent, Size
from planc.catalog.expression import Number
from planc.catalog.lookup import Lookup
from planc.verify import tiny_encoders, tiny_tokenizers


@dataclass(frozen=True, slots=True)
class Tiny:
    """A saved tiny pipeline."""

    folder: Path
    size: Size
    """A size of image or video for it."""
    parameters: int
    """Parameters of one denoiser."""
    image: Path | None
    """An input image for it, where its pipeline takes one."""


def config(card: Card, sizes: Mapping[str, Number] | None) -> dict[str, Any]:
    """The card's tiny config with the flags of the plan's checkpoint: the same structure, small."""
    flags = {key: item for key, item in (sizes or {}).items() if isinstance(item, bool)}
    return {**card.facts.tiny.config, **{key: item for key, item in flags.items() if key in card.facts.tiny.config}}


def save(known: Lookup, folder: Path, *, seed: int = 0) -> Tiny:
    """Write a tiny pipeline of the model's structure to `folder`, in float32.

    Raises:
        KeyError: planc cannot make a tiny text encoder or tokenizer of the pipeline's class.
        OSError: the folder cannot be written.
    """
    import diffusers
    import torch
    from transformers.utils import logging

    diffusers.logging.disable_progress_bar()
    logging.disable_progress_bar()
    assert known.card is not None
    assert known.pipeline_name is not None
    assert known.pipeline is not None
    torch.manual_seed(seed)
    denoiser = config(known.card, known.sizes)
    denoisers = {name: getattr(diffusers, known.card.class_name)(**denoiser).eval() for name in known.denoisers}
    components = {name: _component(part, known, denoiser) for name, part in known.pipeline.components.items()}
    pipe = getattr(diffusers, known.pipeline_name)(**denoisers, **components, **known.pipeline_config)
    pipe.save_pretrained(folder)
    size = known.card.facts.tiny.size
    return Tiny(
        folder=folder,
        size=size,
        parameters=sum(parameter.numel() for parameter in next(iter(denoisers.values())).parameters()),
        image=_image(folder / "image.png", size) if "image" in known.pipeline.call.values() else None,
    )


def _component(part: PipelineComponent, known: Lookup, denoiser: Mapping[str, Any]) -> Any:
    import diffusers

    assert known.card is not None
    facts = known.card.facts.tiny
    if part.role == "text_encoder":
        return tiny_encoders.encoder(part.class_, denoiser).eval()
    if part.role == "vae":
        differing = known.checkpoint.tiny_vae if known.checkpoint else {}
        return getattr(diffusers, part.class_)(**{**facts.vae, **differing}).eval()
    made = getattr(diffusers, part.class_, None)
    return made(**facts.scheduler) if made else tiny_tokenizers.tokenizer(part.class_)


def _image(path: Path, size: Size) -> Path:
    """Save colours that run over the image: its proportions, which decide the number of tokens, are the output's."""
    import numpy as np
    from PIL import Image

    red, green = np.meshgrid(np.linspace(0, 255, size.width), np.linspace(0, 255, size.height))
    Image.fromarray(np.stack([red, green, 255 - red], axis=-1).astype("uint8")).save(path)
    return path
