"""What a verb loads: a pre-commit hook must not wait for torch."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from planc.cli import VERBS
from planc.commands.lint import FORMATS

HEAVY = {"torch", "diffusers", "transformers", "tokenizers", "accelerate", "safetensors", "numpy", "PIL"}
"""What planc loads for `run --tiny`, `tiny` and the card inventories only."""
RUN = """
import sys
from planc import cli
sys.argv = ["planc", *{arguments!r}]
try:
    cli.main()
except SystemExit as end:
    print("code", end.code or 0, file=sys.stderr)
    print("loaded", *sorted({{name.partition(".")[0] for name in sys.modules}}), file=sys.stderr)
"""


@pytest.fixture
def loaded(root: Path, tmp_path: Path) -> Callable[..., set[str]]:
    """The packages that a successful command line loads, in a process of its own."""

    def run(*arguments: str) -> set[str]:
        done = subprocess.run(
            [sys.executable, "-c", RUN.format(arguments=arguments)],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        *_, code, modules = done.stderr.splitlines()
        assert code == "code 0", done.stderr
        assert modules.startswith("loaded ")
        return set(modules.split()[1:])

    return run


@pytest.mark.parametrize("form", FORMATS)
def test_lint_loads_only_what_it_needs(form: str, loaded: Callable[..., set[str]], root: Path) -> None:
    """`planc lint` of a clean plan loads no torch, and nothing that emits code, paints or gathers errors."""
    modules = loaded("lint", str(root / "plans/flux2.yaml"), "--format", form)
    assert {"planc", "yaml"} <= modules
    assert modules & (HEAVY | {"libcst", "jinja2", "rich", "jsonschema", "email", "requests", "urllib3"}) == set()


PLAN = """
version: 1
model: {checkpoint: black-forest-labs/FLUX.2-klein-4B}
targets:
  tp: {device: cpu, mode: eager, tensor_parallel: {degree: 2, plan: class}}
"""


def test_build_loads_no_torch(loaded: Callable[..., set[str]], write_plan: Callable[..., Path]) -> None:
    """`planc build` loads what emits code, and nothing of torch."""
    modules = loaded("build", str(write_plan(PLAN)), "--output", "out")
    assert {"libcst", "jinja2"} <= modules
    assert modules & (HEAVY | {"rich"}) == set()


@pytest.mark.parametrize(
    "arguments",
    [("--help",), ("explain", "P301"), ("models",), ("run", "--help")],
    ids=" ".join,
)
def test_reference_loads_no_torch(arguments: tuple[str, ...], loaded: Callable[..., set[str]]) -> None:
    """Verbs that only tell something load neither torch nor what emits code."""
    assert loaded(*arguments) & (HEAVY | {"libcst", "jinja2", "rich"}) == set()


def test_every_verb_tells_its_options(capsys: pytest.CaptureFixture[str]) -> None:
    """`planc VERB --help` works for every verb, and tells what it does and every option of it."""
    from planc import cli

    for verb in VERBS:
        with pytest.raises(SystemExit) as end:
            cli.run([verb, "--help"])
        assert end.value.code == 0
        text = capsys.readouterr().out
        assert text.startswith(f"usage: planc {verb} ")
        assert len(text.splitlines()) > 4


def test_help_lists_every_verb(planc: Callable[..., Any]) -> None:
    """`planc --help` lists every verb with what it does, the first steps and the exit codes."""
    done = planc("--help")
    assert (done.returncode, done.stderr) == (0, "")
    for verb in VERBS:
        assert any(line.split()[:1] == [verb] and len(line.split()) > 2 for line in done.stdout.splitlines()), verb
    assert "first steps:" in done.stdout
    assert "exit codes:" in done.stdout


def test_planc_without_a_verb_says_what_it_can(planc: Callable[..., Any]) -> None:
    """`planc` alone is wrong usage: it says how it is used, and ends with 2."""
    done = planc()
    assert done.returncode == 2
    assert done.stderr.startswith("usage: planc ")
    assert done.stdout == ""
