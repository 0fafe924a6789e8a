"""The shipped plans' models, tiny, through generated scripts: what ranks make is what one process makes."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from planc.catalog.card import Size
from planc.catalog.lookup import lookup

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
LIMIT = 1e-4
"""What float32 arrays may differ by, from 0 to 1, when sums are split over ranks; right plans reach 1e-5."""
MODELS = ("flux1", "qwen-image", "qwen-image-edit", "wan", "wan2-2", "ltx")
TEXT_TOKENS = 128
PARALLEL = {"tp2": 2, "cp2": 2, "tp2_cp2": 4}
"""Targets with ranks, and how many."""

Finished = subprocess.CompletedProcess[str]
Run = Callable[..., Finished]


class Scripts:
    """The scripts of one model at its tiny size, and how to run them."""

    def __init__(self, model: str, folder: Path, build: Callable[[str, str], Path], fork: Run) -> None:
        """Build the model's targets from its shipped plan, and save a tiny pipeline."""
        plan = ROOT / "plans" / f"{model}.yaml"
        done = fork("planc", "tiny", plan, "-o", folder / "tiny", cwd=folder)
        assert done.returncode == 0, done.stderr
        self.options = shlex.split(done.stdout.splitlines()[-1])
        said = yaml.safe_load(plan.read_text())
        card = lookup(said["model"]["checkpoint"], said["model"]["pipeline"]).card
        assert card is not None
        self.size = card.facts.tiny.size
        self.folder = build(yaml.safe_dump(_plan(said, str(folder / "tiny"), self.size)), model).with_name(
            model.replace("-", "_")
        )
        self._fork = fork

    def run(self, target: str, folder: Path, *options: str, ranks: int = 0, program: Path | None = None) -> Finished:
        """Run a target's script in `folder`."""
        script = self.folder / f"{target}.py"
        arguments = [*self.options, *options]
        if program is None:
            return self._fork(script, *arguments, cwd=folder, ranks=ranks)
        return self._fork(program, script, *arguments, cwd=folder, ranks=ranks)

    def array(self, target: str, folder: Path, *options: str, ranks: int = 0) -> Any:
        """The array that a target's script saves."""
        done = self.run(target, folder, "--output", f"{target}.npy", *options, ranks=ranks)
        assert done.returncode == 0, done.stderr
        assert done.stdout.count("saved") == 1
        return np.load(folder / f"{target}.npy")


def _plan(said: dict[str, Any], checkpoint: str, tiny: Size) -> dict[str, Any]:
    """The shipped plan at a tiny size, with the targets that the tests run and the parallel plans of its cpu targets."""
    size = {"height": tiny.height, "width": tiny.width, "text_tokens": TEXT_TOKENS}
    size |= {"num_frames": tiny.num_frames} if tiny.num_frames is not None else {}
    on_cpu = [target for name, target in said["targets"].items() if name.startswith("cpu")]
    parallel = {
        key: next(target[key] for target in on_cpu if key in target)
        for key in ("tensor_parallel", "context_parallel")
        if any(key in target for target in on_cpu)
    }
    eager = {"device": "cpu", "mode": "eager"}
    targets: dict[str, Any] = {
        "single": eager,
        "compiled": {**eager, "mode": "compiled", "compile": {"backend": "counting"}},
    }
    targets["two-shapes"] = {"extends": "compiled", "shapes": [size, {**size, "height": size["height"] + 64}]}
    if "tensor_parallel" in parallel:
        targets["tp2"] = {**eager, "tensor_parallel": parallel["tensor_parallel"]}
    if "context_parallel" in parallel:
        targets["cp2"] = {**eager, "context_parallel": parallel["context_parallel"]}
    if len(parallel) == 2:
        targets["tp2-cp2"] = {**eager, **parallel}
    call = {**said["call"], "num_inference_steps": 2}
    model = {**said["model"], "checkpoint": checkpoint, "dtype": "float32"}
    return {"version": 1, "model": model, "call": call, "shapes": [size], "targets": targets}


@pytest.fixture(scope="module")
def scripts(
    tmp_path_factory: pytest.TempPathFactory, build: Callable[[str, str], Path], fork: Run
) -> Callable[[str], Scripts]:
    """The scripts of a model, built once."""
    known: dict[str, Scripts] = {}

    def of(model: str) -> Scripts:
        if model not in known:
            known[model] = Scripts(model, tmp_path_factory.mktemp(model), build, fork)
        return known[model]

    return of


def _graphs(scripts: Scripts, target: str, folder: Path, *options: str) -> int:
    done = scripts.run(target, folder, "--output", "x.npy", *options, program=HERE / "count_graphs.py")
    assert done.returncode == 0, done.stderr
    found = re.search(r"^graphs: (\d+)$", done.stdout, re.MULTILINE)
    assert found is not None, done.stdout
    return int(found[1])


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS)
def test_ranks_make_what_one_process_makes(model: str, scripts: Callable[[str], Scripts], tmp_path: Path) -> None:
    """Tensor parallel at 2, Ulysses at 2, and both on 4 ranks give the float array of a single process."""
    own = scripts(model)
    single = own.array("single", tmp_path)
    assert single.std() > 0.02, "a flat picture shows nothing"
    moved = np.abs(single - own.array("single", tmp_path, "--prompt", "a red bicycle")).max()
    assert moved > 3 * LIMIT, f"the prompt moves the output by {moved:.2g} only"
    run = {target: ranks for target, ranks in PARALLEL.items() if (own.folder / f"{target}.py").exists()}
    assert run, "no target has ranks"
    for target, ranks in run.items():
        worst = np.abs(single - own.array(target, tmp_path, ranks=ranks)).max()
        assert worst <= LIMIT, f"{target}: max difference {worst:.2g}"


@pytest.mark.slow
@pytest.mark.parametrize("model", [name for name in MODELS if name != "qwen-image"])
def test_one_graph_a_shape(model: str, scripts: Callable[[str], Scripts], tmp_path: Path) -> None:
    """Prompts of different lengths, and the negative prompt, go through one graph; a second shape is a second one."""
    assert _two_prompts(scripts(model), "compiled", tmp_path) == 1
    assert _two_prompts(scripts(model), "two_shapes", tmp_path) == 2


def test_qwen_image_pads_every_prompt(scripts: Callable[[str], Scripts], tmp_path: Path) -> None:
    """Qwen-Image, whose pipeline does not pad: prompts of any length, and a negative one, add no graph; a shape does."""
    own = scripts("qwen-image")
    assert _two_prompts(own, "compiled", tmp_path) == 1
    assert _graphs(own, "compiled", tmp_path, "--prompt", "x" * 2 * TEXT_TOKENS) == 1, "a prompt that fills the text"
    assert _two_prompts(own, "two_shapes", tmp_path) == 2


def _two_prompts(scripts: Scripts, target: str, folder: Path) -> int:
    (folder / "prompts.txt").write_text("a dog\na lighthouse at dusk, its lamp lit, above a quiet sea\n")
    return _graphs(scripts, target, folder, "--prompt-file", "prompts.txt")


def test_video_file(scripts: Callable[[str], Scripts], tmp_path: Path) -> None:
    """A script of a video model writes the frames it made into a .gif, and as an array of five dims."""
    own = scripts("wan")
    size = own.size
    assert own.array("single", tmp_path).shape == (1, size.num_frames, size.height, size.width, 3)
    done = own.run("single", tmp_path, "--output", "x.gif")
    assert done.returncode == 0, done.stderr
    from PIL import Image

    with Image.open(tmp_path / "x.gif") as made:
        assert getattr(made, "n_frames", 1) == size.num_frames
        assert made.size == (size.width, size.height)
