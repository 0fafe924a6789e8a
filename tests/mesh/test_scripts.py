"""Generated scripts, run as they are on a tiny pipeline: ranks must make the image that one process makes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

from planc.catalog import card

Images = npt.NDArray[np.float32]
Finished = subprocess.CompletedProcess[str]

LIMIT = 1e-4
"""What float32 images may differ by, from 0 to 1, when sums are split over ranks; right plans reach 1e-5."""
WRONG = 1e-3
"""What a wrong plan's image must differ by, so that the limit tells the two apart by a decade."""
CARD = card.load("Flux2Transformer2DModel")
SIZE = CARD.facts.tiny.size
FF_IN = "transformer_blocks.*.ff.linear_in"
FF_OUT = "transformer_blocks.*.ff.linear_out"

PLAN = """\
version: 1
model: {{pipeline: Flux2KleinPipeline, checkpoint: {checkpoint}, dtype: bfloat16}}
call:
  prompt: a lighthouse at dusk
  num_inference_steps: 2
  text_encoder_out_layers: [9, 18, 27]
seed: 3
shapes: [{{height: {size.height}, width: {size.width}, text_tokens: 48}}]
targets:
  single: {{device: cpu, mode: eager}}
  cpu2: {{device: cpu, mode: eager, tensor_parallel: {{degree: 2, plan: class}}}}
  cpu4: {{device: cpu, mode: eager, tensor_parallel: {{degree: 4, plan: class}}}}
  dropped2: {{device: cpu, mode: eager, tensor_parallel: {{degree: 2, plan: {{{dropped}}}}}}}
  mutant2: {{device: cpu, mode: eager, tensor_parallel: {{degree: 2, plan: {{{mutant}}}}}}}
  cp2: {{device: cpu, mode: eager, context_parallel: {{ulysses_degree: 2, plan: class}}}}
  cp4: {{device: cpu, mode: eager, context_parallel: {{ulysses_degree: 4, plan: class}}}}
  both4: {{extends: cpu2, context_parallel: {{ulysses_degree: 2, plan: class}}}}
  both4c: {{extends: both4, mode: compiled, compile: {{backend: eager}}}}
  text-whole2:
    device: cpu
    mode: eager
    context_parallel:
      ulysses_degree: 2
      plan:
        "":
          hidden_states: {{split_dim: 1, expected_dims: 3}}
          img_ids: {{split_dim: 1, expected_dims: 3}}
        proj_out: {{gather_dim: 1, expected_dims: 3}}
  compiled: {{device: cpu, mode: compiled, compile: {{backend: eager}}}}
  compiled2: {{extends: cpu2, mode: compiled, compile: {{backend: aot_eager}}}}
  blocks2: {{extends: cpu2, mode: compiled, compile: {{backend: eager, scope: repeated_blocks}}}}
  encoded:
    extends: single
    components:
      text_encoder: {{placement: cpu, dtype: float32}}
      vae: {{dtype: float32}}
  encoded2:
    extends: encoded
    shapes: [{{height: {size.height}, width: {size.width}, text_tokens: 48, batch: 2}}]
    tensor_parallel: {{degree: 2, plan: class}}
"""


@dataclass(frozen=True)
class Made:
    """What a run left behind."""

    images: Images
    stdout: str
    files: tuple[str, ...]


Make = Callable[..., Made]


def written_out(changed: dict[str, str | None]) -> str:
    """The class's own plan as a plan file writes it, with some entries changed, or left out where None."""
    entries: dict[str, str | None] = {}
    for entry in CARD.inventory.tp_plan:
        blocks = "" if entry.blocks is None else f", blocks: {list(entry.blocks)}"
        entries[entry.pattern] = f"{{style: {entry.style}{blocks}}}"
    assert set(changed) <= set(entries)
    return ", ".join(f'"{pattern}": {style}' for pattern, style in (entries | changed).items() if style is not None)


def difference(one: Images, other: Images) -> float:
    """The largest difference of two arrays of images."""
    assert one.shape == other.shape
    return float(np.abs(one - other).max())


def made(folder: Path, done: Finished) -> Made:
    """The array that a run saved in its folder, which it must have ended well."""
    assert done.returncode == 0, done.stderr
    return Made(np.load(folder / "x.npy"), done.stdout, tuple(sorted(path.name for path in folder.iterdir())))


@pytest.fixture(scope="module")
def scripts(tiny_klein: Path, build: Callable[[str, str], Path]) -> Path:
    """The folder of the plan's scripts."""
    dropped, mutant = written_out({FF_IN: None, FF_OUT: None}), written_out({FF_IN: "colwise"})
    return build(PLAN.format(checkpoint=tiny_klein, size=SIZE, dropped=dropped, mutant=mutant), "mesh")


@pytest.fixture(scope="module")
def make(scripts: Path, fork: Callable[..., Finished], tmp_path_factory: pytest.TempPathFactory) -> Make:
    """Run a target's script in forks, in a folder of its own, and give the array that it saved."""

    def run(target: str, *options: str, ranks: int = 0) -> Made:
        folder = tmp_path_factory.mktemp(target)
        arguments = ["--dtype", "float32", "--output", "x.npy", *options]
        return made(folder, fork(scripts / f"{target}.py", *arguments, cwd=folder, ranks=ranks))

    return run


@pytest.fixture(scope="module")
def single(make: Make) -> Made:
    """What one process makes."""
    return make("single")


def test_seed_decides_the_image(single: Made, make: Make) -> None:
    """One process makes an image that is not flat, and another one with another seed: the equalities below can fail."""
    assert single.images.shape == (1, SIZE.height, SIZE.width, 3)
    assert single.images.std() > 0.05
    assert single.images.min() >= 0
    assert single.images.max() <= 1
    other = difference(single.images, make("single", "--seed", "4").images)
    assert other > 100 * LIMIT, f"another seed differs by {other:.2g} only"


@pytest.mark.slow
@pytest.mark.parametrize(("target", "ranks"), [("single", 0), ("cpu2", 2), ("cpu4", 4)])
def test_started_by_hand(target: str, ranks: int, scripts: Path, single: Made, tmp_path: Path) -> None:
    """A script that python starts, or torchrun by its launcher, makes that image too, and rank 0 alone saves it."""
    bin_folder = Path(sys.executable).parent
    command = ["sh", str(scripts / f"{target}.sh")] if ranks else [sys.executable, str(scripts / f"{target}.py")]
    done = subprocess.run(
        [*command, "--dtype", "float32", "--output", "x.npy"],
        cwd=tmp_path,
        env={**os.environ, "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    run = made(tmp_path, done)
    worst = difference(single.images, run.images)
    assert worst <= LIMIT, f"max difference {worst:.2g}"
    assert run.files == ("x.npy",)
    assert run.stdout.count("saved") == 1
    assert run.stdout.count("s a step") == 1


@pytest.mark.parametrize(
    ("target", "ranks"),
    [
        ("cpu2", 2),
        ("cpu4", 4),
        ("dropped2", 2),
        ("cp2", 2),
        ("cp4", 4),
        ("both4", 4),
        ("encoded", 0),
        pytest.param("compiled", 0, marks=pytest.mark.slow),
        pytest.param("compiled2", 2, marks=pytest.mark.slow),
        pytest.param("both4c", 4, marks=pytest.mark.slow),
    ],
)
def test_same_image_as_one_process(target: str, ranks: int, single: Made, make: Make) -> None:
    """Ranks that share weights, the sequence or both, compilation and encoding first leave the image as it was."""
    run = make(target, ranks=ranks)
    worst = difference(single.images, run.images)
    assert worst <= LIMIT, f"{target}: max difference {worst:.2g}"
    assert run.files == ("x.npy",)
    assert run.stdout.count("saved") == 1


def test_wrong_plan_shows(single: Made, make: Make) -> None:
    """A fused gate cut as if it were one projection changes the image by more than the limit: the check has teeth."""
    worst = difference(single.images, make("mutant2", ranks=2).images)
    assert worst > WRONG, f"the wrong plan differs by {worst:.2g} only"


def test_wrong_split_shows(single: Made, make: Make) -> None:
    """A text that every rank holds whole counts twice in attention, which changes the image by more than the limit."""
    worst = difference(single.images, make("text_whole2", ranks=2).images)
    assert worst > WRONG, f"the wrong plan differs by {worst:.2g} only"


def test_components_in_other_data_types(
    scripts: Path, single: Made, fork: Callable[..., Finished], tmp_path: Path
) -> None:
    """A bfloat16 transformer between a text encoder and a VAE in float32 makes a batch of images on two ranks."""
    run = made(tmp_path, fork(scripts / "encoded2.py", "--output", "x.npy", cwd=tmp_path, ranks=2))
    assert run.images.shape == (2, SIZE.height, SIZE.width, 3)
    assert np.isfinite(run.images).all()
    assert run.images.std() > 0.05
    assert difference(run.images[:1], run.images[1:]) > 100 * LIMIT


def test_text_layers_reach_an_encoder_that_runs_first(make: Make, single: Made) -> None:
    """An option of the text encoder has the same effect whether the script encodes first or the pipeline encodes."""
    options = ["--text-encoder-out-layers", "3", "5", "7"]
    wanted = make("single", *options).images
    moved = difference(single.images, wanted)
    assert moved > WRONG, f"the option moves the image by {moved:.2g} only"
    worst = difference(wanted, make("encoded", *options).images)
    assert worst <= LIMIT, f"max difference {worst:.2g}"


def test_prompt_file(scripts: Path, fork: Callable[..., Finished], tmp_path: Path) -> None:
    """A file of two prompts and an image as output write two numbered images that differ."""
    (tmp_path / "prompts.txt").write_text("a lighthouse at dusk\n\n  a red bicycle\n", encoding="utf-8")
    options = ["--prompt-file", "prompts.txt", "--dtype", "float32", "--output", "out/x.png"]
    done = fork(scripts / "single.py", *options, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["x-0.png", "x-1.png"]
    images = [Image.open(tmp_path / "out" / f"x-{index}.png") for index in range(2)]
    assert {image.size for image in images} == {(SIZE.width, SIZE.height)}
    assert images[0].tobytes() != images[1].tobytes()


def refusal(done: Finished) -> str:
    """The one line with which a script, or the first of its ranks, refuses to start."""
    assert done.returncode == 1
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1, done.stderr
    return done.stderr


@pytest.mark.parametrize(("target", "ranks"), [("compiled", 0), ("compiled2", 2)])
@pytest.mark.parametrize("option", ["--height", "--max-sequence-length"])
def test_undeclared_shape_is_refused(
    option: str, target: str, ranks: int, scripts: Path, fork: Callable[..., Finished], tmp_path: Path
) -> None:
    """A compiled script refuses a shape that the plan does not declare, in one message, and saves nothing."""
    done = fork(scripts / f"{target}.py", option, "96", "--output", "x.npy", cwd=tmp_path, ranks=ranks)
    message = refusal(done)
    assert "96" in message
    assert str(SIZE.height) in message, "the declared shape is not said"
    assert "--allow-new-shape" in message
    assert not list(tmp_path.iterdir())


def test_undeclared_shape_on_request(make: Make) -> None:
    """Two ranks with compiled blocks make an undeclared shape on request, the same as one eager process makes."""
    run = make("blocks2", "--height", "96", "--allow-new-shape", ranks=2)
    assert run.images.shape == (1, 96, SIZE.width, 3)
    worst = difference(make("single", "--height", "96").images, run.images)
    assert worst <= LIMIT, f"max difference {worst:.2g}"


@pytest.mark.parametrize("ranks", [0, 4])
def test_wrong_number_of_ranks(ranks: int, scripts: Path, fork: Callable[..., Finished], tmp_path: Path) -> None:
    """A script for two ranks says how to start it when it runs without torchrun, or with another number of ranks."""
    done = fork(scripts / "cpu2.py", "--output", "x.npy", cwd=tmp_path, ranks=ranks)
    assert "torchrun --standalone --nproc_per_node=2 cpu2.py" in refusal(done)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("target", "ranks"), [("single", 0), ("cpu2", 2)])
def test_bad_output_is_refused_first(
    target: str, ranks: int, scripts: Path, fork: Callable[..., Finished], tmp_path: Path
) -> None:
    """An output that is no image and no array is refused before the checkpoint is looked for."""
    options = ["--output", "x.bmp", "--checkpoint", str(tmp_path / "missing")]
    message = refusal(fork(scripts / f"{target}.py", *options, cwd=tmp_path, ranks=ranks))
    assert "x.bmp" in message
    assert ".png, .jpg, .webp, .npy" in message


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\n  \n", "prompts.txt holds no prompt"),
        (b"caf\xe9\n", "cannot read prompts.txt"),
        (None, "cannot read prompts.txt"),
    ],
)
def test_bad_prompt_file(
    content: bytes | None, message: str, scripts: Path, fork: Callable[..., Finished], tmp_path: Path
) -> None:
    """A prompt file that is missing, empty or not UTF-8 is refused in one line."""
    if content is not None:
        (tmp_path / "prompts.txt").write_bytes(content)
    assert message in refusal(fork(scripts / "single.py", "--prompt-file", "prompts.txt", cwd=tmp_path))
