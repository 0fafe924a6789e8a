"""The wheel, installed where there is no torch and no checkout, does what the checkout does."""

from __future__ import annotations

import email
import os
import subprocess
import sys
import venv
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

import planc

ROOT = Path(__file__).resolve().parents[2]

Run = Callable[..., "subprocess.CompletedProcess[str]"]


def outside(env: Mapping[str, str] | None = None) -> dict[str, str]:
    """An environment in which nothing of the checkout is found."""
    hidden = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "COVERAGE_PROCESS_START")
    return {**{key: value for key, value in os.environ.items() if key not in hidden}, **(env or {})}


def succeed(*command: str | Path, cwd: Path, env: Mapping[str, str] | None = None) -> str:
    """Run a command that must succeed; what it printed."""
    done = subprocess.run(
        list(map(str, command)), cwd=cwd, env=outside(env), capture_output=True, text=True, timeout=250, check=False
    )
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout."""
    folder = tmp_path_factory.mktemp("dist")
    succeed(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT, cwd=folder)
    (made,) = folder.iterdir()
    return made


@pytest.fixture(scope="session")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new virtual environment that holds the wheel and what it requires, nothing else."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False, symlinks=os.name != "nt")
    constraints = os.environ.get("PIP_CONSTRAINT") or (ROOT / "constraints.txt")
    given = ["--constraint", str(constraints)] if Path(constraints).is_file() else []
    pip = (sys.executable, "-m", "pip", "--python", folder / "bin/python", "install", "--quiet", "--no-compile")
    succeed(*pip, *given, wheel, cwd=folder)
    return folder


@pytest.fixture
def installed(environment: Path, tmp_path: Path) -> Run:
    """Run the installed `planc` in a folder of its own."""

    def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [environment / "bin/planc", *arguments],
            cwd=tmp_path,
            env=outside(),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return run


def test_the_wheel_holds_what_planc_needs_and_nothing_else(wheel: Path, root: Path) -> None:
    """The wheel holds every file of planc/, schemas/ and templates/, the licence, and no test, plan or script."""
    names = set(zipfile.ZipFile(wheel).namelist())
    wanted = {
        f"planc/{path.relative_to(root / 'planc').as_posix()}"
        for path in (root / "planc").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    for folder in ("schemas", "templates"):
        wanted |= {f"planc/{folder}/{path.name}" for path in (root / folder).iterdir()}
    beside = {name for name in names if ".dist-info/" in name}
    assert names - beside == wanted
    assert any(name.endswith("/LICENSE") for name in beside)
    assert "planc/py.typed" in names


def test_the_wheel_says_what_planc_is(wheel: Path) -> None:
    """The wheel's metadata has planc's one version, and requires nothing of torch without an extra."""
    archive = zipfile.ZipFile(wheel)
    (path,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
    metadata = email.message_from_bytes(archive.read(path))
    assert metadata["Version"] == planc.__version__
    required = [item for item in metadata.get_all("Requires-Dist", []) if "extra ==" not in item]
    names = {item.partition(">")[0].strip().lower() for item in required}
    assert names == {"pyyaml", "jsonschema", "jinja2", "libcst", "rich"}


def test_torch_is_not_there(environment: Path) -> None:
    """The environment of these tests has no torch, so what works below needs none."""
    probe = "import importlib.util as u; print([u.find_spec(n) for n in ('torch', 'diffusers', 'transformers')])"
    assert succeed(environment / "bin/python", "-c", probe, cwd=environment) == "[None, None, None]\n"
    where = succeed(environment / "bin/python", "-c", "import planc; print(planc.__file__)", cwd=environment)
    assert Path(where.strip()).is_relative_to(environment)


def test_it_builds_the_same_bytes(installed: Run, root: Path, tmp_path: Path) -> None:
    """The installed planc builds a plan to exactly the bytes that are committed."""
    (tmp_path / "flux2.yaml").write_bytes((root / "plans/flux2.yaml").read_bytes())
    done = installed("build", "flux2.yaml")
    assert done.returncode == 0, done.stderr
    made = {path.name: path.read_bytes() for path in (tmp_path / "generated/flux2").iterdir()}
    committed = {path.name: path.read_bytes() for path in (root / "generated/flux2").iterdir() if path.is_file()}
    assert made == committed


def test_it_tells_the_schema_and_the_findings(installed: Run, root: Path) -> None:
    """The installed planc prints the committed schema, explains a finding, and knows the models and its version."""
    assert installed("schema").stdout == (root / "schemas/plan.schema.json").read_text()
    assert installed("explain", "P301").stdout.startswith("P301 indivisible-heads (error)")
    assert "black-forest-labs/FLUX.2-klein-4B" in installed("models").stdout
    assert installed("--version").stdout == f"planc {planc.__version__}\n"


def test_it_writes_a_first_plan_that_builds(installed: Run, tmp_path: Path) -> None:
    """With the installed planc alone a first plan is written, linted and built."""
    for command in (("init", "x.yaml"), ("lint", "x.yaml"), ("build", "x.yaml")):
        done = installed(*command)
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    assert (tmp_path / "generated/x/manifest.json").exists()


def test_what_needs_torch_says_how_to_get_it(installed: Run, tmp_path: Path) -> None:
    """Without torch, the verbs that need it end with 2 and say what to install; nothing is left behind."""
    installed("init", "x.yaml")
    for command in (("tiny", "x.yaml", "-o", "tiny"), ("run", "x.yaml", "--target", "cpu", "--tiny")):
        done = installed(*command)
        assert done.returncode == 2, done.stderr
        assert "pip install 'planc[verify]'" in done.stderr
        assert "Traceback" not in done.stderr
    assert not (tmp_path / "tiny").exists()


def test_sync_is_for_checkouts(installed: Run) -> None:
    """The installed planc has nothing to sync, and says so."""
    done = installed("sync", "--check")
    assert done.returncode == 2
    assert "no checkout" in done.stderr
