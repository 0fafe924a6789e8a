"""Every device in every mode with every kind of parallelism: a sound script, or a refusal that says why."""

from __future__ import annotations

import ast
import subprocess
import sys
import tempfile
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest

from planc import cli, pipeline
from planc.catalog.devices import DEVICES
from planc.diagnostics import Findings, Severity

HEAD = """\
version: 1
model: {checkpoint: black-forest-labs/FLUX.2-klein-4B}
call: {prompt: a lighthouse, num_inference_steps: 4}
shapes: [{height: 1024, width: 1024, text_tokens: 512}]
targets:
"""
MODES = {
    "eager": "mode: eager",
    "full": "mode: compiled",
    "blocks": "mode: compiled, compile: {scope: repeated_blocks}",
}
PARALLEL = {
    "one": "",
    "tp": "tensor_parallel: {degree: 4, plan: class}",
    "ulysses": "context_parallel: {ulysses_degree: 4, plan: class}",
    "ring": "context_parallel: {ring_degree: 4, plan: class}, attention_backend: _native_flash",
    "unified": "context_parallel: {ring_degree: 2, ulysses_degree: 2, plan: class}, attention_backend: _native_flash",
    "uany": "context_parallel: {ulysses_degree: 4, ulysses_anything: true, plan: class}",
    "rany": "context_parallel: {ring_degree: 4, ring_anything: true, plan: class}, attention_backend: _native_flash",
    "tpcp": "tensor_parallel: {degree: 2, plan: class}, context_parallel: {ulysses_degree: 2, plan: class}",
    "tpring": "tensor_parallel: {degree: 2, plan: class}, context_parallel: {ring_degree: 2, plan: class}, attention_backend: _native_flash",
}
CELLS = [f"{device}-{mode}-{kind}" for device, mode, kind in product(DEVICES, MODES, PARALLEL)]
RINGS = ("ring", "unified", "rany", "tpring")
REFUSED = {f"cpu-{mode}-{kind}": "P409" for mode in MODES for kind in RINGS}
"""Cells that are refused, and the finding that says why: ring attention has no kernel for a CPU."""


def target(cell: str) -> str:
    """A line of the plan: the target of a cell."""
    device, mode, kind = cell.split("-")
    cache = ", cache_dir: /var/lib/neff" if device == "neuron" else ""
    dtype = ", model: {dtype: bfloat16}"
    parallel = f", {PARALLEL[kind]}" if PARALLEL[kind] else ""
    return f"  {cell}: {{device: {device}, {MODES[mode]}{cache}{dtype}{parallel}}}\n"


def errors(path: Path) -> list[str]:
    """The codes of the errors in a plan."""
    findings = Findings()
    pipeline.check(str(path), {}, findings)
    return [item.code for item in findings if item.severity is Severity.ERROR]


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The scripts of every cell that is not refused."""
    folder = tmp_path_factory.mktemp("matrix")
    plan = folder / "matrix.yaml"
    plan.write_text(HEAD + "".join(target(cell) for cell in CELLS if cell not in REFUSED))
    assert cli.run(["build", str(plan), "--output", str(folder / "generated")]) == 0
    return folder / "generated" / "matrix"


@pytest.mark.parametrize("cell", CELLS)
def test_a_cell_builds_or_is_refused(cell: str, write_plan: Callable[..., Path], generated: Path) -> None:
    """A cell is refused by the finding that it must be, or has a script that Python compiles."""
    found = errors(write_plan(HEAD + target(cell)))
    assert found == [REFUSED[cell]] if cell in REFUSED else not found
    script = generated / f"{cell.replace('-', '_')}.py"
    assert script.exists() == (cell not in REFUSED)
    if script.exists():
        compile(ast.parse(script.read_text()), script.name, "exec")


def test_ruff_finds_nothing(generated: Path) -> None:
    """Every script is laid out as ruff does it, and passes its default rules."""
    for arguments in (["check", "--isolated"], ["format", "--isolated", "--check"]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *arguments, str(generated)], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_mypy_finds_nothing(generated: Path, tmp_path: Path) -> None:
    """Every script has types that mypy believes, by its defaults."""
    for script in sorted(generated.glob("*.py")):
        assert script.read_text().count("type: ignore") <= 4
    cache = Path(tempfile.gettempdir()) / "planc-mypy-cache"  # what mypy learnt of torch serves other tests too
    command = [sys.executable, "-m", "mypy", "--config-file=", f"--cache-dir={cache}", "--scripts-are-modules"]
    done = subprocess.run(
        [*command, *map(str, sorted(generated.glob("*.py")))], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 0, done.stdout[-3000:]
