"""What the tests of running programs share: ranks that fork from one process, and plans built on a tiny pipeline."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from planc import cli

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
TIMED_OUT = 124

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="session")
def fork(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """Run a program, or a module, as `ranks` forks of a process that has imported torch and diffusers.

    `ranks=0` is a plain process. The ranks' output is joined in their order; they must end with one code.
    """
    logs = tmp_path_factory.mktemp("ranks")
    with (logs / "server.err").open("w") as errors:
        server = subprocess.Popen(
            [sys.executable, str(HERE / "fork_ranks.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"},
        )
    assert server.stdin is not None
    assert server.stdout is not None
    requests, answers = server.stdin, server.stdout

    def run(
        program: str | Path,
        *arguments: str | Path,
        cwd: Path,
        ranks: int = 0,
        env: dict[str, str] | None = None,
        timeout: float = 100,
    ) -> subprocess.CompletedProcess[str]:
        command = [str(program), *map(str, arguments)]
        request = {
            "program": command[0],
            "arguments": command[1:],
            "ranks": ranks,
            "cwd": str(cwd),
            "env": env or {},
            "logs": str(logs),
            "timeout": timeout,
        }
        print(json.dumps(request), file=requests, flush=True)
        line = answers.readline()
        assert line, (logs / "server.err").read_text()
        codes = json.loads(line)["codes"]
        out, err = (
            "".join((logs / f"{rank}.{name}").read_text() for rank in range(len(codes))) for name in ("out", "err")
        )
        if TIMED_OUT in codes:
            raise subprocess.TimeoutExpired(command, timeout, out, err)
        assert len(set(codes)) == 1, f"the ranks ended with codes {codes}:\n{err}"
        return subprocess.CompletedProcess(command, codes[0], out, err)

    yield run
    requests.close()
    server.wait(30)
    answers.close()


@pytest.fixture(scope="session")
def build(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Path]:
    """Write a plan's text and build it with planc; the folder of its scripts."""

    def run(text: str, name: str) -> Path:
        folder = tmp_path_factory.mktemp(name)
        plan = folder / f"{name}.yaml"
        plan.write_text(text)
        assert cli.run(["build", str(plan), "--output", str(folder / "generated")]) == 0
        return folder / "generated" / name

    return run


@pytest.fixture(scope="session")
def tiny_dev(fork: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A saved tiny FLUX.2 dev pipeline, as `planc tiny` writes it."""
    folder = tmp_path_factory.mktemp("tiny") / "dev"
    done = fork("planc", "tiny", ROOT / "plans" / "flux2-dev.yaml", "-o", folder, cwd=folder.parent)
    assert done.returncode == 0, done.stderr
    return folder
