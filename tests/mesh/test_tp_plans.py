"""Emitted TP_PLANS, applied by diffusers' own code on real gloo ranks, against the model that is not sharded."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from planc import pipeline
from planc.catalog import card
from planc.diagnostics import Findings
from planc.ir import TargetProgram

HERE = Path(__file__).resolve().parent
CARD = card.load("Flux2Transformer2DModel")
LIMIT = 1e-9
"""Largest difference over rms in float64: right plans reach 1e-14, the mildest wrong one 1e-5 (upstream-facts)."""
WRONG = 1e-6
DEGREES = (2, 4)
DTYPES = ("float32", "bfloat16")

PLAN = """\
version: 1
model: {{pipeline: {pipeline}, checkpoint: {checkpoint}}}
targets:
"""
TARGET = """\
  {dtype}-{degree}:
    device: cpu
    mode: eager
    model: {{dtype: {dtype}}}
    tensor_parallel: {{degree: {degree}, plan: class}}
"""

DOUBLE, SINGLE = "transformer_blocks.*", "single_transformer_blocks.*"
EVERYTHING = {entry.pattern: None for entry in CARD.inventory.tp_plan}
MUTANTS: Mapping[str, Mapping[str, Any]] = {
    "plain instead of packed": {f"{DOUBLE}.ff.linear_in": "colwise"},
    "plain instead of packed, rows": {f"{SINGLE}.attn.to_out": "rowwise"},
    "wrong blocks": {f"{DOUBLE}.ff.linear_in": ["packed_colwise", [1, 3]]},
}
"""Plans with one fault each, that run and are silently wrong; every number of ranks must show them."""
LOUD_MUTANTS: Mapping[str, Mapping[str, Any]] = {
    "wrong style": {f"{DOUBLE}.attn.to_q": "rowwise"},
    "wrong blocks of five": {f"{SINGLE}.attn.to_qkv_mlp_proj": ["packed_colwise", [1, 1, 1]]},
    "wrong blocks of rows": {f"{SINGLE}.attn.to_out": ["packed_rowwise", [1, 1]]},
    "swapped pair": {f"{DOUBLE}.ff_context.linear_in": "rowwise", f"{DOUBLE}.ff_context.linear_out": "colwise"},
    "half a pair": {f"{DOUBLE}.attn.to_add_out": None},
}
"""More of them, on two ranks only: some raise."""


def folder_plan(folder: Path, pipeline_name: str) -> str:
    """A plan whose checkpoint is a saved tiny pipeline: its sizes come from the folder's config."""
    targets = (TARGET.format(degree=degree, dtype=dtype) for degree in DEGREES for dtype in DTYPES)
    return PLAN.format(pipeline=pipeline_name, checkpoint=folder) + "".join(targets)


def targets_of(scripts: Path) -> dict[str, TargetProgram]:
    """The programs of a built plan, by target."""
    findings = Findings()
    checked = pipeline.check(str(scripts.parent.parent / f"{scripts.name}.yaml"), {}, findings)
    assert checked is not None, list(findings)
    return {target.name: target for target in pipeline.resolve(checked).targets}


Seen = list[dict[str, dict[str, Any]]]
"""By rank and case what it measured."""


@pytest.fixture(scope="module")
def klein(tiny_klein: Path, build: Callable[[str, str], Path]) -> Path:
    """The built plan of a tiny FLUX.2 klein, which has no guidance embedder."""
    return build(folder_plan(tiny_klein, "Flux2KleinPipeline"), "klein")


@pytest.fixture(scope="module")
def dev(tiny_dev: Path, build: Callable[[str, str], Path]) -> Path:
    """The built plan of a tiny FLUX.2 dev, which has one."""
    return build(folder_plan(tiny_dev, "Flux2Pipeline"), "dev")


@pytest.fixture(scope="module", params=DEGREES)
def degree(request: pytest.FixtureRequest) -> int:
    """Number of ranks."""
    number: int = request.param
    return number


@pytest.fixture(scope="module")
def seen(
    degree: int,
    klein: Path,
    dev: Path,
    tiny_klein: Path,
    tiny_dev: Path,
    fork: Callable[..., subprocess.CompletedProcess[str]],
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, Seen]:
    """What every rank measured with each plan; one start of the ranks a plan."""
    folder = tmp_path_factory.mktemp("jobs")
    found = {}
    for scripts, checkpoint, guidance in ((klein, tiny_klein, False), (dev, tiny_dev, True)):
        config = {**CARD.facts.tiny.config, "guidance_embeds": guidance}
        target = f"float32-{degree}"
        changes = {"class": {}, "nothing": EVERYTHING, **(MUTANTS if scripts is klein else {})}
        if scripts is klein and degree == DEGREES[0]:
            changes |= LOUD_MUTANTS
        cases: dict[str, Any] = {
            name: {"kind": "in memory", "target": target, "changes": item, "config": config}
            for name, item in changes.items()
        }
        cases["effects"] = {"kind": "effects", "target": target, "changes": {}, "config": config}
        for dtype in DTYPES:
            cases[dtype] = {
                "kind": "streamed",
                "target": f"{dtype}-{degree}",
                "changes": {},
                "folder": str(checkpoint),
                "dtype": dtype,
            }
        job = folder / f"{scripts.name}.json"
        job.write_text(json.dumps({"tp_plan": str(scripts / "tp_plan.py"), "cases": cases}))
        done = fork(HERE / "shard_rank.py", job, cwd=folder, ranks=degree, timeout=120)
        assert done.returncode == 0, done.stderr
        found[scripts.name] = [json.loads(job.with_suffix(f".{rank}.json").read_text()) for rank in range(degree)]
    return found


@pytest.mark.parametrize("name", ["klein", "dev"])
def test_right_on_every_rank(name: str, seen: dict[str, Seen]) -> None:
    """With the emitted plan every rank gives the unsharded model's output, from weights that are alike on all ranks."""
    for rank, cases in enumerate(seen[name]):
        case = cases["class"]
        assert "error" not in case, case
        assert case["rms"] > 0.05, "the output is too small to compare"
        assert case["difference"] <= LIMIT, f"rank {rank}: {case['difference']:.2g} of the rms"
    assert len({cases["class"]["weights"] for cases in seen[name]}) == 1


@pytest.mark.parametrize("name", ["klein", "dev"])
def test_every_planned_weight_matters(name: str, seen: dict[str, Seen]) -> None:
    """The comparison's inputs see every planned Linear: a hundredth in its weight moves the output beyond the limit."""
    effects = seen[name][0]["effects"]
    assert set(effects) == set(EVERYTHING)
    assert min(effects.values()) > WRONG, effects


def test_wrong_plans_are_caught(degree: int, seen: dict[str, Seen]) -> None:
    """A plan that is wrong in one place raises on every rank, or differs far beyond the limit on one."""
    names = [*MUTANTS, *(LOUD_MUTANTS if degree == DEGREES[0] else ())]
    for name in names:
        cases = [rank[name] for rank in seen["klein"]]
        raised = ["error" in case for case in cases]
        assert all(raised) or not any(raised), cases
        worst = max((case["difference"] for case in cases if "difference" in case), default=1.0)
        assert worst > WRONG, f"{name}: {worst:.2g} of the rms"
        assert name in LOUD_MUTANTS or not any(raised), f"{name} is not silent any more: {cases}"


@pytest.mark.parametrize("name", ["klein", "dev"])
def test_bytes_of_the_program(name: str, degree: int, seen: dict[str, Seen], request: pytest.FixtureRequest) -> None:
    """Each rank's shards take the bytes that the program says, loaded or sharded in memory, in any data type."""
    targets = targets_of(request.getfixturevalue(name))
    said = {dtype: targets[f"{dtype}-{degree}"].tensor_parallel[0].sharded_bytes for dtype in DTYPES}
    for rank, cases in enumerate(seen[name]):
        measured = {dtype: cases[dtype]["bytes"] for dtype in DTYPES}
        assert measured == said, f"rank {rank}"
        assert cases["class"]["bytes"] == 2 * measured["float32"], "float64 takes twice the bytes of float32"


def test_empty_plan_shards_nothing(seen: dict[str, Seen]) -> None:
    """A plan without entries gives the right output and no bytes at all: numbers alone do not see it, bytes do."""
    for ranks in seen.values():
        for cases in ranks:
            assert cases["nothing"]["difference"] <= LIMIT
            assert cases["nothing"]["bytes"] == 0
            assert cases["class"]["bytes"] > 0


def test_hang_ends_in_a_timeout(fork: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path) -> None:
    """Ranks that wait for one that never comes are killed when their time is up."""
    program = tmp_path / "hang.py"
    program.write_text(
        "import os, pathlib, time\n"
        "import torch.distributed as dist\n"
        "dist.init_process_group('gloo')\n"
        "pathlib.Path(f'{dist.get_rank()}.pid').write_text(str(os.getpid()))\n"
        "dist.barrier() if dist.get_rank() else time.sleep(600)\n"
    )
    with pytest.raises(subprocess.TimeoutExpired):
        fork(program, cwd=tmp_path, ranks=2, timeout=3)
    pids = [int((tmp_path / f"{rank}.pid").read_text()) for rank in range(2)]
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
