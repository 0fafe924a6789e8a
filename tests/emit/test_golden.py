"""Whole plans and everything that they become, byte for byte.

A case is a folder of `cases/`: `plan.yaml`, and in `expected/` every file that it becomes.
"""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from planc import pipeline
from planc.diagnostics import Findings
from planc.emit.files import MANIFEST, GeneratedFile

CASES = Path(__file__).resolve().parent / "cases"
NAMES = sorted(path.parent.name for path in CASES.glob("*/plan.yaml"))
IS_UPDATE = os.environ.get("PLANC_UPDATE_GOLDENS") == "1"
COMMAND = "PLANC_UPDATE_GOLDENS=1 python -m pytest tests/emit/test_golden.py"


@cache
def emitted(name: str) -> tuple[GeneratedFile, ...]:
    """Everything that a case's plan becomes; it has no error."""
    findings = Findings()
    checked = pipeline.check(str(CASES / name / "plan.yaml"), {}, findings)
    assert checked is not None, [f"{item.span}: {item.message}" for item in findings]
    return pipeline.emit(pipeline.resolve(checked))


def expected(name: str) -> dict[str, str]:
    """The files of `expected/`."""
    folder = CASES / name / "expected"
    found = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes().decode() for path in sorted(found)}


def differences(now: Mapping[str, str], wanted: Mapping[str, str]) -> str:
    """A diff over all files, from what is expected to what was emitted."""
    lines: list[str] = []
    for path in sorted({*now, *wanted}):
        old, new = wanted.get(path, ""), now.get(path, "")
        names = (f"expected/{path}" if path in wanted else "/dev/null", path if path in now else "/dev/null")
        lines += difflib.unified_diff(old.splitlines(), new.splitlines(), *names, lineterm="")
    return "\n".join(lines)


@pytest.mark.parametrize("name", NAMES)
def test_a_plan_becomes_exactly_its_files(name: str) -> None:
    """A case's plan becomes exactly the files that are committed beside it, byte for byte."""
    now = {file.path.removeprefix("plan/"): file.text for file in emitted(name)}
    folder = CASES / name / "expected"
    if IS_UPDATE:
        for path in set(expected(name)) - set(now):
            (folder / path).unlink()
        folder.mkdir(exist_ok=True)
        for path, text in now.items():
            (folder / path).write_bytes(text.encode())
        pytest.skip(f"wrote {folder}: read its diff before you commit it")
    wanted = expected(name)
    assert now == wanted, (
        f"read the diff; if it is right, write the files anew with\n  {COMMAND}\n{differences(now, wanted)}"
    )


@pytest.mark.parametrize("name", NAMES)
def test_only_shell_files_are_programs(name: str) -> None:
    """Exactly the shell files are executable, and each stands beside the script that it starts."""
    files = {file.path: file for file in emitted(name)}
    for path, file in files.items():
        assert file.is_executable == path.endswith(".sh"), path
        assert not path.endswith(".sh") or path.replace(".sh", ".py") in files


def test_there_are_cases() -> None:
    """The cases were found, and no folder among them lacks its plan or its files."""
    assert len(NAMES) >= 5
    folders = {path.name for path in CASES.iterdir() if path.is_dir() and not path.name.startswith(".")}
    assert folders == set(NAMES) == {path.parent.name for path in CASES.glob("*/expected")}


def test_the_committed_scripts_are_what_the_plans_give(planc: Callable[..., Any], root: Path) -> None:
    """`generated/` holds exactly what `plans/` become, and nothing else."""
    done = planc("build", "--check", "plans", cwd=root)
    assert done.returncode == 0, f"run `planc build plans`\n{done.stdout}{done.stderr}"
    stems = {path.stem.replace("-", "_") for path in (root / "plans").glob("*.yaml")}
    assert {path.name for path in (root / "generated").iterdir()} == stems
    for stem in stems:
        folder = root / "generated" / stem
        recorded = json.loads((folder / MANIFEST).read_text())["files"]
        files = {path.name for path in folder.iterdir() if path.name != "__pycache__"}
        assert files == {*recorded, MANIFEST}
