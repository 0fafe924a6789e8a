"""What the contract tests share: torch and diffusers, imported when the first of them runs and not at collection."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from planc.catalog import card
from planc.catalog.card import Card


@pytest.fixture(scope="session")
def torch() -> Any:
    """The module torch, on one thread: more only wait for each other on tensors this small."""
    import torch

    torch.set_num_threads(1)
    return torch


@pytest.fixture(scope="session")
def diffusers() -> Any:
    """The module diffusers, quiet: its progress bars and warnings are none of the tests'."""
    import diffusers
    import transformers

    for logging in (diffusers.utils.logging, transformers.utils.logging):
        logging.set_verbosity_error()
        logging.disable_progress_bar()
    return diffusers


@pytest.fixture(scope="session")
def on_meta(torch: Any, diffusers: Any) -> Callable[..., Any]:
    """Build a class of diffusers with a config on the meta device: shapes, and no weights."""

    def build(class_name: str, config: Any) -> Any:
        with torch.device("meta"):
            return getattr(diffusers, class_name)(**config)

    return build


@pytest.fixture(scope="session")
def tiny_pipeline(diffusers: Any, torch: Any, tmp_path_factory: pytest.TempPathFactory) -> Callable[[Card, str], Any]:
    """A tiny pipeline of a card's class, saved and loaded once."""
    from planc.verify import tiny

    loaded: dict[str, Any] = {}

    def load(known: Card, name: str) -> Any:
        if name not in loaded:
            released = next(item for item in known.facts.checkpoints.values() if item.pipeline == name)
            folder: Path = tmp_path_factory.mktemp(name)
            tiny.save(known, name, card.sizes(known.facts, released.config), folder)
            loaded[name] = getattr(diffusers, name).from_pretrained(folder, dtype=torch.float32)
            loaded[name].set_progress_bar_config(disable=True)
        return loaded[name]

    return load
