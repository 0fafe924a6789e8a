"""Which card, pipeline and config numbers belong to a checkpoint, as far as can be known without its weights."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from planc.catalog import card, expression
from planc.catalog.card import Card, Checkpoint, Pipeline
from planc.catalog.expression import Number


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
    found = index.get("_class_name") if index else None
    wanted = pipeline or (found if isinstance(found, str) else None)
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
    try:
        sizes = card.sizes(item.facts, config)
        for linear in item.inventory.linears:
            expression.evaluate(linear.out_features, sizes)
            expression.evaluate(linear.in_features, sizes)
    except (KeyError, ValueError, TypeError) as error:
        return None, f"{path} holds other values than a {item.class_name} has: {error}"
    return sizes, ""


def _json(path: Path) -> dict[str, Any] | None:
    """A json object, or None where there is none to read."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return data if isinstance(data, dict) else None
