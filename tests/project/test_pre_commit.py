"""The hooks for pre-commit and the workflow in the docs do what they say, in a scratch repository."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from planc import cli

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = re.compile(r"<!-- example: (?P<what>.+?) -->\n```\w*\n(?P<text>.*?)```", re.DOTALL)
PLAN = """\
version: 1
model: {{pipeline: Flux2KleinPipeline, checkpoint: black-forest-labs/FLUX.2-klein-4B}}
seed: {seed}
targets:
  cpu: {{device: cpu, mode: eager, tensor_parallel: {{degree: 2, plan: class}}}}
"""
COUNT = 20
"""Plans in the scratch repository: enough that pre-commit would part them over processes."""

Hook = Callable[..., "subprocess.CompletedProcess[str]"]


def example(what: str) -> str:
    """A marked example of the docs."""
    text = (ROOT / "docs/pre-commit.md").read_text(encoding="utf-8")
    return next(match["text"] for match in EXAMPLE.finditer(text) if match["what"] == what)


def run(*command: str | Path, cwd: Path, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command as a user would whose git knows nothing of this checkout."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith("GIT_") and key != "PYTHONPATH"}
    for who in ("AUTHOR", "COMMITTER"):
        clean |= {f"GIT_{who}_NAME": "Tester", f"GIT_{who}_EMAIL": "tester@example.com"}
    clean |= {"GIT_CONFIG_GLOBAL": os.devnull, "PRE_COMMIT_COLOR": "never", **(env or {})}
    return subprocess.run(
        list(map(str, command)), cwd=cwd, env=clean, capture_output=True, text=True, timeout=250, check=False
    )


def git(*arguments: str, cwd: Path) -> str:
    """Run git, which must succeed; what it printed."""
    done = run("git", *arguments, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def commit(folder: Path) -> str:
    """Commit everything in a repository; the commit."""
    git("add", "--all", cwd=folder)
    git("commit", "--quiet", "--message", "state", cwd=folder)
    return git("rev-parse", "HEAD", cwd=folder)


# The files


def test_pre_commit_takes_the_hooks() -> None:
    """pre-commit's own check finds nothing wrong with the hooks."""
    done = run(sys.executable, "-m", "pre_commit", "validate-manifest", ".pre-commit-hooks.yaml", cwd=ROOT)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@pytest.mark.parametrize("what", ["pre-commit config", "pre-commit folders"])
def test_pre_commit_takes_the_documented_configs(what: str, tmp_path: Path) -> None:
    """The documented configurations are sound, and name hooks that there are."""
    (tmp_path / "config.yaml").write_text(example(what), encoding="utf-8")
    done = run(sys.executable, "-m", "pre_commit", "validate-config", "config.yaml", cwd=tmp_path)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    known = {hook["id"] for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())}
    (repo,) = yaml.safe_load(example(what))["repos"]
    assert {hook["id"] for hook in repo["hooks"]} == known


def test_the_hooks_are_commands_of_planc() -> None:
    """Each hook's entry and arguments are a command line that planc takes."""
    for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text()):
        name, verb, *options = hook["entry"].split()
        names = hook.get("args", ["plans/a.yaml"])
        assert name == "planc"
        assert cli.parser([verb]).parse_args([verb, *options, *names]).plans


@pytest.mark.parametrize(
    ("path", "hooks"),
    [
        ("plans/a.yaml", {"planc-lint", "planc-build-check"}),
        ("plans/team/a.yml", {"planc-lint", "planc-build-check"}),
        ("plans/proof.json", set()),
        ("plans/README.md", set()),
        ("generated/a/cpu.py", {"planc-build-check"}),
        ("generated/a/manifest.json", {"planc-build-check"}),
        ("other/plans/a.yaml", set()),
        ("regenerated/a.py", set()),
    ],
)
def test_a_hook_runs_for_the_files_that_concern_it(path: str, hooks: set[str]) -> None:
    """Plans concern both hooks, scripts the build only, and nothing else concerns either."""
    known = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    assert {hook["id"] for hook in known if re.search(hook["files"], path)} == hooks


def test_github_takes_the_documented_workflow(tmp_path: Path) -> None:
    """The documented workflow fits the schema of workflows, and its commands are planc's."""
    (tmp_path / "workflow.yaml").write_text(example("workflow"), encoding="utf-8")
    command = ("-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows", "workflow.yaml")
    done = run(sys.executable, *command, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    steps: list[dict[str, Any]] = yaml.safe_load(example("workflow"))["jobs"]["plans"]["steps"]
    lines = [shlex.split(step["run"].partition(" > ")[0]) for step in steps if "run" in step]
    commands = [line[1:] for line in lines if line[0] == "planc"]
    assert [arguments[0] for arguments in commands] == ["lint", "build", "lint"]
    for arguments in commands:
        assert cli.parser(arguments[:1]).parse_args(arguments).plans == ["plans"]


# The hooks at work


@pytest.fixture(scope="module")
def hook_repo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository that holds what this checkout ships."""
    folder = tmp_path_factory.mktemp("hook-repo")
    for name in ("planc", "schemas", "templates"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE", ".pre-commit-hooks.yaml"):
        shutil.copy(ROOT / name, folder / name)
    git("init", "--quiet", cwd=folder)
    commit(folder)
    return folder


@pytest.fixture(scope="module")
def user_repo(hook_repo: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with plans, their scripts, and the documented configuration."""
    folder = tmp_path_factory.mktemp("user-repo")
    (folder / "plans").mkdir()
    for number in range(COUNT):
        (folder / f"plans/p{number}.yaml").write_text(PLAN.format(seed=number))
    (folder / "plans/proof.json").write_text("{}\n")
    config = yaml.safe_load(example("pre-commit config"))
    config["repos"][0] |= {"repo": str(hook_repo), "rev": git("rev-parse", "HEAD", cwd=hook_repo)}
    (folder / ".pre-commit-config.yaml").write_text(yaml.safe_dump(config))
    done = run(sys.executable, "-m", "planc", "build", "plans", cwd=folder, env={"PYTHONPATH": str(ROOT)})
    assert done.returncode == 0, done.stderr
    git("init", "--quiet", cwd=folder)
    commit(folder)
    return folder


@pytest.fixture(scope="module")
def home(user_repo: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where pre-commit keeps the hooks' environment, installed."""
    folder = tmp_path_factory.mktemp("pre-commit-home")
    constraints = os.environ.get("PIP_CONSTRAINT", str(ROOT / "constraints.txt"))
    env = {"PRE_COMMIT_HOME": str(folder), "PIP_CONSTRAINT": constraints}
    done = run(sys.executable, "-m", "pre_commit", "install-hooks", cwd=user_repo, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture
def hooks(user_repo: Path, home: Path) -> Iterator[Hook]:
    """Run pre-commit in the user's repository, which is as it was committed before and after."""

    def start(*options: str) -> subprocess.CompletedProcess[str]:
        return run(
            *(sys.executable, "-m", "pre_commit", "run", *options), cwd=user_repo, env={"PRE_COMMIT_HOME": str(home)}
        )

    yield start
    git("reset", "--quiet", "--hard", cwd=user_repo)


def outcomes(done: subprocess.CompletedProcess[str]) -> dict[str, str]:
    """How each hook ended."""
    return dict(re.findall(r"^(planc [a-z -]+?)\.+(?:\(no files to check\))?(\w+)$", done.stdout, re.MULTILINE))


@pytest.mark.slow
def test_the_hooks_environment_has_no_torch(home: Path) -> None:
    """pre-commit installs planc and what it requires, and nothing that verifies."""
    (packages,) = home.glob("repo*/py_env-*/lib/python*/site-packages")
    names = {path.name for path in packages.iterdir()}
    assert {"planc", "yaml", "jsonschema", "libcst"} <= names
    assert names & {"torch", "diffusers", "transformers", "numpy", "pytest"} == set()


@pytest.mark.slow
def test_good_plans_pass(hooks: Hook) -> None:
    """Twenty good plans with their scripts pass both hooks."""
    done = hooks("--all-files")
    assert outcomes(done) == {"planc lint": "Passed", "planc build --check": "Passed"}, done.stdout
    assert done.returncode == 0


@pytest.mark.slow
def test_a_broken_plan_is_refused_at_its_line(hooks: Hook, user_repo: Path) -> None:
    """Of twenty plans the broken one fails both hooks, said once in each, at its line."""
    plan = user_repo / "plans/p7.yaml"
    plan.write_text(plan.read_text().replace("degree: 2", "degree: 5"))
    done = hooks("--all-files")
    assert done.returncode == 1
    assert outcomes(done) == {"planc lint": "Failed", "planc build --check": "Failed"}
    column = plan.read_text().splitlines()[4].index("5") + 1
    assert re.findall(r"--> (.+)", done.stdout) == [f"plans/p7.yaml:5:{column}"] * 2
    assert done.stdout.count("P301") == 2


@pytest.mark.slow
def test_a_plan_without_its_build_is_refused(hooks: Hook, user_repo: Path) -> None:
    """A plan that changed while its scripts did not passes the linter and fails the build's check, with a diff."""
    plan = user_repo / "plans/p3.yaml"
    plan.write_text(plan.read_text().replace("seed: 3", "seed: 33"))
    git("add", "--all", cwd=user_repo)
    done = hooks()
    assert outcomes(done) == {"planc lint": "Passed", "planc build --check": "Failed"}, done.stdout
    assert "generated/p3/cpu.py is stale" in done.stdout
    assert re.search(r"^\+.*33", done.stdout, re.MULTILINE)
    assert "generated/p4/" not in done.stdout


@pytest.mark.slow
def test_a_script_changed_by_hand_is_refused(hooks: Hook, user_repo: Path) -> None:
    """Where only a script changed, the build's check runs, on the plans, and fails."""
    with (user_repo / "generated/p3/cpu.py").open("a") as script:
        script.write("print(1)\n")
    git("add", "--all", cwd=user_repo)
    done = hooks()
    assert outcomes(done) == {"planc lint": "Skipped", "planc build --check": "Failed"}, done.stdout
    assert "generated/p3/cpu.py is stale" in done.stdout
