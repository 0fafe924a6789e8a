"""The same plan gives the same bytes: on any machine, in any process, from any folder."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from planc import pipeline
from planc.diagnostics import Findings
from planc.emit import python

Planc = Callable[..., "subprocess.CompletedProcess[str]"]

PLAN = """\
version: 1
model: {checkpoint: black-forest-labs/FLUX.2-klein-4B, revision: main, variant: fp16}
call: {prompt: a lighthouse, guidance_scale: 1.5, num_inference_steps: 4}
shapes: [{height: 1024, width: 1024, text_tokens: 512}]
targets:
  tp:
    device: cuda
    mode: compiled
    cache_dir: /var/lib/inductor
    compile: {options: {b: 1, a: 2, c: x}}
    components: {vae: {dtype: float32}, text_encoder: {placement: cpu}}
    tensor_parallel:
      degree: 2
      plan:
        transformer_blocks.*.ff.linear_in: {style: packed_colwise, blocks: [1, 1]}
        transformer_blocks.*.ff.linear_out: rowwise
        single_transformer_blocks.*.attn.to_out: packed_rowwise
    launch: {env: {ZETA: "1", ALPHA: "2", MID: "3"}}
"""


def tree(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def built(planc: Planc, tmp_path: Path) -> Callable[..., dict[str, bytes]]:
    """Build the plan in a process of its own, into a new folder; what it wrote."""
    (tmp_path / "plan.yaml").write_text(PLAN)

    def build(name: str, *, cwd: Path = tmp_path, plan: str | Path = "plan.yaml", **env: str) -> dict[str, bytes]:
        output = tmp_path / name
        done = planc("build", plan, "--output", output, cwd=cwd, env=env)
        assert done.returncode == 0, done.stderr
        return tree(output)

    return build


def test_the_bytes_are_the_same_everywhere(built: Callable[..., dict[str, bytes]], tmp_path: Path) -> None:
    """Neither the hash seed, the folder, the path to the plan, the locale nor the time zone changes a byte."""
    (tmp_path / "elsewhere").mkdir()
    first = built("first", PYTHONHASHSEED="1", TZ="UTC")
    assert len(first) == 4
    elsewhere = built(
        "second",
        cwd=tmp_path / "elsewhere",
        plan=tmp_path / "plan.yaml",
        PYTHONHASHSEED="2",
        TZ="Asia/Tokyo",
        LC_ALL="POSIX",
        PYTHONUTF8="0",
        USER="someone",
        COLUMNS="40",
    )
    assert first == elsewhere
    assert built("first") == first, "a second build over the first changes nothing"


@pytest.fixture
def ungated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the gate, which has tests of its own and takes most of the time."""
    monkeypatch.setattr(python, "gate", lambda _, text: text)


@pytest.mark.usefixtures("ungated")
def test_emitting_twice_in_one_process_gives_the_same(write_plan: Callable[..., Path]) -> None:
    """Emission is a pure function: neither an earlier plan nor an earlier emission leaves a trace in the next."""
    path = str(write_plan(PLAN))
    other = str(write_plan(PLAN.replace("ALPHA", "OMEGA").replace("degree: 2", "degree: 4"), "other.yaml"))
    emitted = []
    for name in (path, other, path):
        checked = pipeline.check(name, {}, Findings())
        assert checked is not None
        program = pipeline.resolve(checked)
        assert pipeline.resolve(checked) == program
        emitted.append(pipeline.emit(program))
    assert emitted[0] == emitted[2] != emitted[1]


@pytest.mark.usefixtures("ungated")
def test_the_order_of_targets_is_the_plans(write_plan: Callable[..., Path]) -> None:
    """Targets, options and plan entries come in the order in which the plan says them, not sorted."""
    text = PLAN + "  another: {device: cuda, mode: eager}\n  aa: {extends: tp}\n"
    checked = pipeline.check(str(write_plan(text)), {}, Findings())
    assert checked is not None
    files = {file.path: file.text for file in pipeline.emit(pipeline.resolve(checked))}
    assert list(files) == [
        f"plan/{name}" for name in ("tp.py", "tp.sh", "another.py", "aa.py", "aa.sh", "tp_plan.py", "manifest.json")
    ]
    script = files["plan/tp.py"]
    assert script.index("--guidance-scale") < script.index("--num-inference-steps")
    assert 'options={"b": 1, "a": 2, "c": "x"}' in script
    assert script.index("ff.linear_in") < script.index("ff.linear_out") < script.index("attn.to_out")
