"""What the tests share: checking a plan's text, running the command line, and a tiny pipeline."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from planc import pipeline
from planc.diagnostics import Diagnostic, Findings
from planc.ir import Program

ROOT = Path(__file__).resolve().parent.parent

Check = Callable[..., list[Diagnostic]]
Planc = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def root() -> Path:
    """The checkout."""
    return ROOT


@pytest.fixture
def write_plan(tmp_path: Path) -> Callable[..., Path]:
    """Write a plan's text (or bytes) to a file and give its path."""

    def write(text: str | bytes, name: str = "plan.yaml") -> Path:
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


@pytest.fixture
def check(write_plan: Callable[..., Path]) -> Check:
    """Everything that planc finds in a plan's text."""

    def run(text: str | bytes, name: str = "plan.yaml") -> list[Diagnostic]:
        findings = Findings()
        pipeline.check(str(write_plan(text, name)), {}, findings)
        return list(findings)

    return run


@pytest.fixture
def resolve(write_plan: Callable[..., Path]) -> Callable[..., Program]:
    """The program of a plan's text, which must have no error."""

    def run(text: str, name: str = "plan.yaml") -> Program:
        findings = Findings()
        checked = pipeline.check(str(write_plan(text, name)), {}, findings)
        assert checked is not None, [f"{item.span}: {item.message}" for item in findings]
        return pipeline.resolve(checked)

    return run


@pytest.fixture
def planc(tmp_path: Path) -> Planc:
    """Run the command line in a process of its own, in a temporary folder."""

    def run(
        *arguments: str | Path, cwd: Path = tmp_path, env: dict[str, str] | None = None, timeout: float = 120
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "planc", *map(str, arguments)],
            cwd=cwd,
            env={**os.environ, **(env or {})},
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    return run


@pytest.fixture(scope="session")
def tiny_klein(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A saved tiny FLUX.2 klein pipeline, as `planc tiny` writes it."""
    folder = tmp_path_factory.mktemp("tiny") / "klein"
    done = subprocess.run(
        [sys.executable, "-m", "planc", "tiny", str(ROOT / "plans/flux2.yaml"), "-o", str(folder)],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder
