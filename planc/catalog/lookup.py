"""Which card, pipeline and config numbers belong to a checkpoint, as far as can be known without its weights."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from planc.catalog import card
from planc.catalog.card import Card, Checkpoint, Pipeline
from planc.catalog.expression import Number

MAX_SIZE = 10**6
"""Above every head count, width and depth of a released transformer; a larger number is no size."""


@dataclass(frozen=True, kw_only=True)
class Lookup:
    """What is known of a plan's model. What is None could not be found, and `unknown` says why."""

    card: Card | None
    """The card of the denoisers' class."""
    pipeline_name: str | None
    """The pipeline's class: the plan's word, else the checkpoint's."""
    found_pipeline: str | None
    """The pipeline's class by the card's checkpoint or the folder's `model_index.json`."""
    checkpoint: Checkpoint | None
    """The released checkpoint."""
    sizes: Mapping[str, Number] | None
    """The denoiser's config numbers and the card's symbols over them."""
    unknown: str = ""
    """Why the config numbers are not known."""
    denoisers: tuple[str, ...] = ()
    """Components of the card's class that this checkpoint has."""
    pipeline_config: Mapping[str, Any] = field(default_factory=dict)
    """Values of the pipeline's own config that differ from its class's."""

    @property
    def pipeline(self) -> Pipeline | None:
        """The card's facts of the pipeline."""
        if self.card is None or self.pipeline_name is None:
            return None
        return self.card.facts.pipelines.get(self.pipeline_name)

    @property
    def tokens(self) -> dict[str, str]:
        """How height, width and frames become tokens: each expression may use those before it."""
        if self.card is None:
            return {}
        own = self.pipeline.tokens if self.pipeline else {}
        return {**{name: text for name, text in self.card.facts.tokens.items() if name not in own}, **own}


@cache
def cards() -> tuple[Card, ...]:
    """Every card."""
    return tuple(card.load(name) for name in card.class_names())


def pipelines() -> dict[str, Card]:
    """Every pipeline class that a card knows."""
    return {name: item for item in cards() for name in item.facts.pipelines}


def lookup(checkpoint: str, pipeline: str | None) -> Lookup:
    """Look a model up: a known hub id first, else a local folder, else the class alone."""
    for item in cards():
        if (released := item.facts.checkpoints.get(checkpoint)) is not None:
            name = pipeline or released.pipeline
            known = item if name in item.facts.pipelines else pipelines().get(name)
            return Lookup(
                card=known,
                pipeline_name=name,
                found_pipeline=released.pipeline,
                checkpoint=released,
                sizes=card.sizes(item.facts, released.config, released.numbers),
                denoisers=released.denoisers or _denoisers(known, name, None),
                pipeline_config=released.pipeline_config,
            )
    folder = Path(checkpoint)
    index = _json(folder / "model_index.json")
    named = index.get("_class_name") if index else None
    found = named if isinstance(named, str) else None
    wanted = pipeline or found
    known = pipelines().get(wanted) if wanted else None
    sizes, unknown = _folder_sizes(folder, known, wanted) if known and wanted else (None, "its class is not known")
    return Lookup(
        card=known,
        pipeline_name=wanted,
        found_pipeline=found,
        checkpoint=None,
        sizes=sizes,
        unknown=unknown,
        denoisers=_denoisers(known, wanted, index),
        pipeline_config={key: item for key, item in (index or {}).items() if _is_pipeline_value(key, item)},
    )


def _is_pipeline_value(key: str, item: Any) -> bool:
    """Whether an entry of a `model_index.json` is a value, neither a component nor diffusers' own note."""
    return not key.startswith("_") and isinstance(item, bool | int | float | str)


def _denoisers(item: Card | None, pipeline: str | None, index: Mapping[str, Any] | None) -> tuple[str, ...]:
    """The pipeline's denoisers, without those that a folder's `model_index.json` says are not there."""
    if item is None or pipeline is None or pipeline not in item.facts.pipelines:
        return ()
    listed = index or {}
    return tuple(
        name
        for name in item.facts.pipelines[pipeline].denoisers
        if not (isinstance(said := listed.get(name), list) and said[:1] == [None])
    )


def _folder_sizes(folder: Path, item: Card, pipeline: str) -> tuple[dict[str, Number] | None, str]:
    denoiser = item.facts.pipelines[pipeline].denoisers[0]
    path = folder / denoiser / "config.json"
    config = _json(path)
    if config is None:
        return None, f"no card knows it, and there is no {path} to read"
    numbers, usual = card.numbers(config), card.numbers(item.facts.tiny.config)
    lacking = sorted(item.known_config - set(numbers))
    unnamed = [key for key in lacking if key.rstrip("0123456789").rstrip("_") not in config and key not in config]
    if unnamed:
        return None, f"{path} lacks {', '.join(unnamed)}"
    odd = lacking or sorted(key for key in item.known_config if not _is_like(numbers[key], usual[key]))
    if odd:
        return None, f"{path} holds no usable {', '.join(odd)}"
    try:
        sizes = card.sizes(item.facts, config, _vae_numbers(folder, item))
    except ValueError as error:
        return None, f"{path} fits no {item.class_name}: {error}"
    return sizes, ""


def _vae_numbers(folder: Path, item: Card) -> dict[str, int]:
    """The card's numbers that the folder's VAE says; those it does not say usably stay the card's."""
    config = _json(folder / "vae" / "config.json") or {}
    said = {name: config.get(key) for name, key in item.facts.vae_numbers.items()}
    return {name: value for name, value in said.items() if isinstance(value, int) and _is_like(value, 1)}


def _is_like(value: Any, example: Any) -> bool:
    """Whether a config's value is of the kind that the card's tiny config has, and a size that a model can have."""
    if isinstance(example, bool):
        return isinstance(value, bool)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and (isinstance(value, int) or isinstance(example, float)) and 0 < value < MAX_SIZE


def _json(path: Path) -> dict[str, Any] | None:
    """A json object, or None where there is none to read."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) else None
