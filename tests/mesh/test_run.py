"""`planc run` and `planc tiny`: from a plan to an image on a laptop, exit codes, and signals that leave nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from planc import cli
from planc.catalog import card

Finished = subprocess.CompletedProcess[str]
Process = subprocess.Popen[str]

ROOT = Path(__file__).resolve().parent.parent.parent
SIZE = card.load("Flux2Transformer2DModel").facts.tiny.size
PLAN = """\
version: 1
model: {{pipeline: Flux2KleinPipeline, checkpoint: {checkpoint}}}
call: {{prompt: a lighthouse at dusk, num_inference_steps: 2}}
targets:
  single: {{device: cpu, mode: eager}}
  cpu2: {{device: cpu, mode: eager, tensor_parallel: {{degree: 2, plan: class}}}}
"""

RANK = """\
import os, pathlib, signal, time

if "RANK" in os.environ:
    {setup}
    pathlib.Path(r"{folder}", os.environ["RANK"]).touch()
    time.sleep(600)
"""
"""A sitecustomize: ranks of torchrun that hold still before the script's first line, and import nothing."""
POLITE = "pass"
STUBBORN = "[signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)]"


def until(claim: Callable[[], bool], seconds: float, what: str) -> None:
    """Wait for a claim to become true."""
    end = time.monotonic() + seconds
    while not claim():
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        time.sleep(0.05)


def living(mark: str) -> list[str]:
    """The processes with `mark` among their arguments."""
    listing = subprocess.run(["ps", "-ewwo", "pid=,stat=,args="], capture_output=True, text=True, check=True).stdout
    return [line for line in listing.splitlines() if mark in line and not line.split()[1].startswith("Z")]


@pytest.fixture
def mark(tmp_path: Path) -> Iterator[str]:
    """A word for the command line of everything that a test starts; what bears it afterwards is killed."""
    word = f"planc-test-{os.getpid()}-{tmp_path.name}"
    yield word
    for line in living(word):
        os.kill(int(line.split()[0]), signal.SIGKILL)


Start = Callable[..., Process]


@pytest.fixture
def start(tmp_path: Path, tiny_klein: Path, mark: str) -> Iterator[Start]:
    """Start `planc run` on two ranks that hold still, and wait until both run."""
    started: list[Process] = []

    def run(setup: str) -> Process:
        site, ready = tmp_path / "site", tmp_path / "ready"
        site.mkdir()
        ready.mkdir()
        (site / "sitecustomize.py").write_text(RANK.format(setup=setup, folder=ready))
        plan = tmp_path / "plan.yaml"
        plan.write_text(PLAN.format(checkpoint=tiny_klein))
        with (tmp_path / "output").open("w") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "planc", "run", str(plan), "--target", "cpu2", "--prompt", mark],
                cwd=tmp_path,
                env={**os.environ, "PYTHONPATH": f"{site}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"},
                stdout=output,
                stderr=output,
                text=True,
            )
        started.append(process)
        until(lambda: len(list(ready.iterdir())) == 2, 100, "two ranks")
        return process

    yield run
    for process in started:
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def tiny_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Finished]:
    """The folder of a tiny run on two ranks, and how it ended."""
    folder = tmp_path_factory.mktemp("run")
    (folder / "tmp").mkdir()
    (folder / "plan.yaml").write_text(PLAN.format(checkpoint="black-forest-labs/FLUX.2-klein-4B"))
    options = ["--target", "cpu2", "--tiny", "--output", "tiny.png"]
    done = subprocess.run(
        [sys.executable, "-m", "planc", "run", "plan.yaml", *options],
        cwd=folder,
        env={**os.environ, "TMPDIR": str(folder / "tmp"), "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    return folder, done


def test_tiny_run_makes_an_image(tiny_run: tuple[Path, Finished]) -> None:
    """`planc run --tiny` goes from a plan to an image of the tiny size on two ranks, without the checkpoint."""
    folder, done = tiny_run
    assert done.returncode == 0, done.stderr
    with Image.open(folder / "tiny.png") as image:
        assert image.size == (SIZE.width, SIZE.height)
        assert np.asarray(image).std() > 10, "the image is flat"
    assert done.stdout.count("saved") == 1
    assert "the weights were random" in done.stderr


def test_tiny_run_makes_the_image_of_one_process(
    tiny_run: tuple[Path, Finished], fork: Callable[..., Finished], tiny_klein: Path, tmp_path: Path
) -> None:
    """The ranks that `planc run --tiny` starts make, to a level of brightness, what one process makes."""
    folder, _ = tiny_run
    script = folder / "generated" / "plan" / "single.py"
    options = ["--checkpoint", tiny_klein, "--dtype", "float32", "--height", SIZE.height, "--width", SIZE.width]
    done = fork(script, *options, "--output", "single.png", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    with Image.open(folder / "tiny.png") as ranks, Image.open(tmp_path / "single.png") as single:
        worst = int(np.abs(np.asarray(ranks).astype(int) - np.asarray(single).astype(int)).max())
    assert worst <= 1, f"they differ by up to {worst} of 255"


def test_tiny_run_cleans_up(tiny_run: tuple[Path, Finished]) -> None:
    """`planc run --tiny` leaves its scripts and the image, and nothing of the tiny pipeline."""
    folder, _ = tiny_run
    assert sorted(path.name for path in folder.iterdir()) == ["generated", "plan.yaml", "tiny.png", "tmp"]
    assert not list((folder / "tmp").glob("planc-*"))


def test_exit_code_of_the_script(tmp_path: Path, planc: Callable[..., Finished]) -> None:
    """`planc run` ends with the code of its script, here argparse's for a wrong value."""
    # Empty modules in their place: a script reads its options before it uses torch and diffusers.
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "torch.py").touch()
    (tmp_path / "site" / "diffusers.py").write_text("Flux2KleinPipeline = None")
    (tmp_path / "plan.yaml").write_text(PLAN.format(checkpoint="black-forest-labs/FLUX.2-klein-4B"))
    path = {"PYTHONPATH": f"{tmp_path / 'site'}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    for option, code in (("tall", 2), ("64", 1)):
        done = planc("run", "plan.yaml", "--target", "single", "--height", option, "--output", "x.bmp", env=path)
        assert done.returncode == code, done.stderr
        assert ("invalid int value: 'tall'" if code == 2 else "x.bmp") in done.stderr


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signal_ends_every_rank(number: int, code: int, start: Start, mark: str) -> None:
    """A signal to `planc run` ends it with the signal's code as shells say it, and no rank is left."""
    process = start(POLITE)
    assert len(living(mark)) == 4, "planc, torchrun and two ranks"
    process.send_signal(number)
    assert process.wait(timeout=40) == code
    assert not living(mark)


def test_second_interrupt_kills(start: Start, mark: str) -> None:
    """A second Ctrl-C ends ranks that do not answer the first, without waiting for them."""
    process = start(STUBBORN)
    process.send_signal(signal.SIGINT)
    time.sleep(2)
    assert process.poll() is None, "the ranks were given no time to stop"
    process.send_signal(signal.SIGINT)
    process.wait(timeout=5)
    assert process.returncode != 0
    assert not living(mark)


def test_killed_launcher_leaves_no_rank(start: Start, mark: str) -> None:
    """Ranks do not outlive a torchrun that was killed, as the kernel does when memory runs out."""
    process = start(POLITE)
    launcher = next(line for line in living(mark) if "torch.distributed.run" in line)
    os.kill(int(launcher.split()[0]), signal.SIGKILL)
    assert process.wait(timeout=40) == 128 + signal.SIGKILL
    assert not living(mark)


def test_termination_while_the_tiny_pipeline_is_made(tmp_path: Path) -> None:
    """`planc run --tiny` that is told to stop before its script runs takes its temporary folder along."""
    for name in ("site", "tmp"):
        (tmp_path / name).mkdir()
    (tmp_path / "site" / "torch.py").write_text("import time; time.sleep(60)")
    (tmp_path / "plan.yaml").write_text(PLAN.format(checkpoint="black-forest-labs/FLUX.2-klein-4B"))
    path = f"{tmp_path / 'site'}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    process = subprocess.Popen(
        [sys.executable, "-m", "planc", "run", "plan.yaml", "--target", "single", "--tiny"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path, "TMPDIR": str(tmp_path / "tmp")},
        stderr=subprocess.DEVNULL,
    )
    with process:
        until(lambda: any((tmp_path / "tmp").iterdir()), 30, "a temporary folder")
        process.terminate()
        assert process.wait(timeout=20) in (-signal.SIGTERM, 128 + signal.SIGTERM)
    assert not list((tmp_path / "tmp").iterdir())


@pytest.mark.slow
def test_ranks_that_do_not_answer(start: Start, mark: str) -> None:
    """Ranks that ignore a signal are killed after torchrun's thirty seconds."""
    process = start(STUBBORN)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=45) != 0
    assert not living(mark)


@pytest.mark.slow
def test_interrupt_in_the_middle_of_a_step(tmp_path: Path, tiny_klein: Path, mark: str) -> None:
    """Ctrl-C while real ranks exchange tensors ends them all in time."""
    (tmp_path / "plan.yaml").write_text(PLAN.format(checkpoint=tiny_klein))
    options = ["--prompt", mark, "--num-inference-steps", "99999", "--height", "128", "--width", "128"]
    with (tmp_path / "output").open("w") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "planc", "run", "plan.yaml", "--target", "cpu2", *options],
            cwd=tmp_path,
            stdout=output,
            stderr=output,
        )
    until(lambda: " 5/99999" in (tmp_path / "output").read_text(), 150, "five steps")
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=40) == 130
    assert not living(mark)


CHILD = (
    "import sys; from planc.commands.child import run_child; sys.exit(run_child([sys.executable, '-c', sys.argv[1]]))"
)


def parent(program: str, cwd: Path) -> Process:
    """A process that runs `program` by `run_child`; it says `up` when it is there."""
    process = subprocess.Popen([sys.executable, "-c", CHILD, program], cwd=cwd, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    return process


def test_child_may_take_its_time(tmp_path: Path) -> None:
    """A child that needs seconds to stop after a signal is given them, and its own exit code counts."""
    process = parent(
        "import signal, sys, time\n"
        "def stop(*_):\n    time.sleep(3)\n    sys.exit(7)\n"
        "signal.signal(signal.SIGTERM, stop)\n"
        "print('up', flush=True)\n"
        "time.sleep(60)",
        tmp_path,
    )
    with process:
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=20) == 7


def test_child_that_a_signal_ended(tmp_path: Path) -> None:
    """A child that dies of the signal gives 128 and the signal's number."""
    process = parent("import time\nprint('up', flush=True)\ntime.sleep(60)", tmp_path)
    with process:
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=20) == 143


def weights(folder: Path) -> dict[str, bytes]:
    """Every weight file of a saved pipeline."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*.safetensors"))}


def test_tiny_is_reproducible(fork: Callable[..., Finished], tiny_klein: Path, tmp_path: Path) -> None:
    """`planc tiny` writes the same bytes for the same seed, and other weights for another."""
    known = weights(tiny_klein)
    assert len(known) == 3, "transformer, text encoder and VAE"
    plan = ROOT / "plans" / "flux2.yaml"
    for name, options in (("same", ()), ("other", ("--seed", "1"))):
        done = fork("planc", "tiny", plan, "-o", tmp_path / name, *options, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    assert weights(tmp_path / "same") == known
    other = weights(tmp_path / "other")
    assert other.keys() == known.keys()
    assert all(other[name] != known[name] for name in known)


def test_tiny_of_another_pipeline(tiny_dev: Path) -> None:
    """`planc tiny` keeps the structure of the plan's checkpoint: FLUX.2 dev has a guidance embedder."""
    index = json.loads((tiny_dev / "model_index.json").read_text())
    assert index["_class_name"] == "Flux2Pipeline"
    assert index["text_encoder"] == ["transformers", "Mistral3ForConditionalGeneration"]
    assert json.loads((tiny_dev / "transformer" / "config.json").read_text())["guidance_embeds"] is True


def test_tiny_refuses_a_used_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`planc tiny` writes into no folder that holds something, and over no file."""
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "thesis.txt").write_text("irreplaceable")
    for path in (tmp_path / "used", tmp_path / "used" / "thesis.txt"):
        assert cli.run(["tiny", str(ROOT / "plans" / "flux2.yaml"), "-o", str(path)]) == 2
        assert "is not an empty folder" in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "used").iterdir()] == ["thesis.txt"]
    assert (tmp_path / "used" / "thesis.txt").read_text() == "irreplaceable"
