"""What the contract tests share: torch and diffusers, imported when the first of them runs and not at collection."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from planc.catalog.card import Pipeline
from planc.catalog.lookup import Lookup


@dataclass(frozen=True)
class Loaded:
    """A tiny pipeline that was saved and loaded."""

    lookup: Lookup
    pipe: Any
    image: Any
    """An input image for it; None where it takes none."""

    @property
    def facts(self) -> Pipeline:
        """The card's facts of the pipeline."""
        assert self.lookup.pipeline is not None
        return self.lookup.pipeline

    @property
    def config(self) -> dict[str, Any]:
        """The configs of denoiser and pipeline, whose flags decide which inputs there are."""
        return {**getattr(self.pipe, self.lookup.denoisers[0]).config, **self.pipe.config}


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
    """Build a class of diffusers with a config on the meta device, once: shapes, and no weights. Nobody changes it."""
    built: dict[str, Any] = {}

    def build(class_name: str, config: Any) -> Any:
        key = f"{class_name} {json.dumps(dict(config), sort_keys=True)}"
        if key not in built:
            with torch.device("meta"):
                built[key] = getattr(diffusers, class_name)(**config)
        return built[key]

    return build


@pytest.fixture(scope="session")
def tiny_pipeline(
    diffusers: Any, torch: Any, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str, Lookup], Loaded]:
    """A tiny pipeline of a model, saved and loaded once for each name."""
    from PIL import Image

    from planc.verify import tiny

    loaded: dict[str, Loaded] = {}

    def load(name: str, known: Lookup) -> Loaded:
        if name not in loaded:
            made = tiny.save(known, tmp_path_factory.mktemp("tiny"))
            pipe = getattr(diffusers, str(known.pipeline_name)).from_pretrained(made.folder, dtype=torch.float32)
            pipe.set_progress_bar_config(disable=True)
            loaded[name] = Loaded(known, pipe, None if made.image is None else Image.open(made.image))
        return loaded[name]

    return load
