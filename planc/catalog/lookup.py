"""Which card, pipeline and config numbers belong to a checkpoint, as far as can be known without its weights."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
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

    @property
    def pipeline(self) -> Pipeline | None:
        """The card's facts of the pipeline."""
        if self.card is None or self.pipeline_name is None:
            return None
        return self.card.facts.pipelines.get(self.pipeline_name)


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
            matches = name in item.facts.pipelines
            return Lookup(
                card=item if matches else pipelines().get(name),
                pipeline_name=name,
                found_pipeline=released.pipeline,
                checkpoint=released,
                sizes=card.sizes(item.facts, released.config),
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
    )


def _folder_sizes(folder: Path, item: Card, pipeline: str) -> tuple[dict[str, Number] | None, str]:
    denoiser = item.facts.pipelines[pipeline].denoisers[0]
    path = folder / denoiser / "config.json"
    config = _json(path)
    if config is None:
        return None, f"no card knows it, and there is no {path} to read"
    lacking = sorted(item.known_config - set(config))
    if lacking:
        return None, f"{path} lacks {', '.join(lacking)}"
    odd = sorted(key for key in item.known_config if not _is_like(config[key], item.facts.tiny.config[key]))
    if odd:
        return None, f"{path} holds no usable {', '.join(odd)}"
    try:
        sizes = card.sizes(item.facts, config)
    except ValueError as error:
        return None, f"{path} fits no {item.class_name}: {error}"
    return sizes, ""


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
