"""The command line: exit codes, hints, and an orderly end whatever happens."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import pytest

import planc as package
from planc import cli, pipeline
from planc.catalog.lookup import cards
from planc.diagnostics import Findings
from planc.emit import python

Planc = Callable[..., "subprocess.CompletedProcess[str]"]

HEAD = "version: 1\nmodel: {checkpoint: black-forest-labs/FLUX.2-klein-4B}\n"
CLEAN = HEAD + "targets:\n  eager: {device: cuda, mode: eager}\n"
NOTE = CLEAN.replace(
    "checkpoint: black-forest-labs/FLUX.2-klein-4B", "pipeline: Flux2KleinPipeline, checkpoint: my/own"
)
WARNING = HEAD + (
    "shapes: [{height: 1024, width: 1024, text_tokens: 512}]\n"
    "targets:\n  t: {device: neuron, mode: compiled, cache_dir: /tmp/neff}\n"
)
ERROR = CLEAN.replace("mode: eager", "mode: eger")
CHECKPOINTS = [checkpoint for card in cards() for checkpoint in card.facts.checkpoints]


def in_process(*arguments: str) -> int:
    """Run a command line in this process, argparse's own ends included."""
    try:
        return cli.run(arguments)
    except SystemExit as end:
        assert isinstance(end.code, int)
        return end.code


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        (CLEAN, 0, "1 plan checked, nothing found"),
        (NOTE, 0, "note[P115]"),
        (WARNING, 1, "warning[P505]"),
        (ERROR, 1, "error[P104]"),
        (None, 2, "error[P001]"),
    ],
    ids=["clean", "note", "warning", "error", "missing"],
)
def test_lint_ends_with_the_code_of_what_it_found(
    text: str | None, code: int, said: str, write_plan: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """`planc lint` ends with 0 for clean and notes, 1 for warnings and errors, 2 for a file that cannot be read."""
    path = Path("/nowhere/plan.yaml") if text is None else write_plan(text)
    assert in_process("lint", str(path)) == code
    assert said in capsys.readouterr().out


def test_one_unreadable_plan_makes_the_whole_unreadable(planc: Planc, write_plan: Callable[..., Path]) -> None:
    """A file that cannot be read ends with 2 even where other plans have errors, which are still told."""
    write_plan(ERROR)
    done = planc("lint", "plan.yaml", "missing.yaml")
    assert done.returncode == 2
    assert "error[P104]" in done.stdout
    assert "error[P001] unreadable-file: cannot read missing.yaml: No such file or directory" in done.stdout
    assert "`planc init`" in done.stdout


def test_a_folder_stands_for_its_plans(planc: Planc, tmp_path: Path) -> None:
    """A folder is linted as the plans in it; one without plans is an unreadable input."""
    (tmp_path / "plans").mkdir()
    assert planc("lint", "plans").returncode == 2
    for name in ("a.yaml", "b.yml", "notes.txt"):
        (tmp_path / "plans" / name).write_text(CLEAN)
    assert planc("lint", "plans").stdout == "2 plans checked, nothing found\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["biuld"], "invalid choice: 'biuld'"),
        (["lint"], "PLAN"),
        (["lint", "plan.yaml", "--formt", "json"], "lint has no option --formt json"),
        (["lint", "plan.yaml", "--form", "json"], "lint has no option --form json"),
        (["lint", "plan.yaml", "--format", "xml"], "invalid choice: 'xml'"),
        (["build", "plan.yaml", "--target", "eager"], "--target goes with --show-program"),
        (["run", "plan.yaml"], "--target"),
        (["explain"], "CODE"),
    ],
    ids=lambda item: " ".join(item) if isinstance(item, list) else "",
)
def test_wrong_usage_is_told(
    arguments: list[str],
    said: str,
    write_plan: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A wrong verb, a missing argument, an unknown or abbreviated option: exit code 2, and a line that names it."""
    monkeypatch.chdir(write_plan(CLEAN).parent)
    assert in_process(*arguments) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", "plan.yaml", "--target", "eagre"], "there is no target 'eagre'; did you mean 'eager'?"),
        (["run", "plan.yaml", "--target", "xyz"], "there is no target 'xyz'; targets: eager"),
        (["build", "plan.yaml", "--show-program", "--target", "eagre"], "there is no target 'eagre'"),
        (["explain", "P3O1"], "there is no finding 'P3O1'; did you mean P301?"),
        (["explain", "indivisible-head"], "did you mean indivisible-heads?"),
        (["explain", "xyzzy"], "`planc rules` lists them all"),
        (["models", "black-forest-labs/FLUX2-klein-4B"], "did you mean black-forest-labs/FLUX.2-klein-4B?"),
        (["models", "Flux2Transfomer2DModel"], "did you mean Flux2Transformer2DModel?"),
        (["models", "xyzzy"], "see `planc models`"),
        (
            ["init", "x.yaml", "--checkpoint", "black-forest-labs/FLUX2-dev"],
            "did you mean black-forest-labs/FLUX.2-dev?",
        ),
        (["init", "x.yaml", "--checkpoint", "xyzzy"], "known: "),
    ],
    ids=lambda item: " ".join(item) if isinstance(item, list) else "",
)
def test_a_misspelt_name_gets_a_hint(
    arguments: list[str],
    said: str,
    write_plan: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A target, code, model or checkpoint that does not exist ends with 2 and names the nearest, or those there are."""
    folder = write_plan(CLEAN).parent
    monkeypatch.chdir(folder)
    assert in_process(*arguments) == 2
    assert said in capsys.readouterr().err
    assert [path.name for path in folder.iterdir()] == ["plan.yaml"]


@pytest.mark.parametrize("code", ["P301", "p301", "indivisible-heads", "Indivisible-Heads"])
def test_explain_takes_a_code_or_a_name(code: str, capsys: pytest.CaptureFixture[str]) -> None:
    """`planc explain` tells the same of a code and of its name, in either case."""
    assert in_process("explain", code) == 0
    assert capsys.readouterr().out.startswith("P301 indivisible-heads (error)\n")


def test_every_finding_is_listed_and_explained(capsys: pytest.CaptureFixture[str]) -> None:
    """`planc rules` lists every finding once, in order, and `planc explain` has a text for each."""
    assert in_process("rules") == 0
    codes = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert codes == sorted(set(codes))
    assert len(codes) > 25
    for code in codes:
        assert in_process("explain", code) == 0
        assert f"{code} " in capsys.readouterr().out


@pytest.mark.parametrize("checkpoint", CHECKPOINTS)
def test_a_first_plan_is_clean_and_builds(
    checkpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`planc init` writes a plan for every checkpoint of the cards that lints without a word and can be emitted."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(python, "gate", lambda _, text: text)
    assert in_process("init", "plans/first-plan.yaml", "--checkpoint", checkpoint) == 0
    assert "planc build plans/first-plan.yaml" in capsys.readouterr().out
    assert in_process("lint", "plans") == 0
    assert capsys.readouterr().out == "1 plan checked, nothing found\n"
    checked = pipeline.check("plans/first-plan.yaml", {}, Findings())
    assert checked is not None
    assert {target.model.checkpoint for target in pipeline.resolve(checked).targets} == {checkpoint}
    files = {file.path.partition("/")[2] for file in pipeline.emit(pipeline.resolve(checked))}
    assert {"eager.py", "compiled.py", "cpu.py", "manifest.json"} <= files


def test_init_never_overwrites(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`planc init` leaves an existing file as it is and ends with 2, unless it is told --force."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.yaml").write_text("mine")
    (tmp_path / "link.yaml").symlink_to("nowhere")
    assert in_process("init", "x.yaml") == 2
    assert "x.yaml exists; --force writes over it" in capsys.readouterr().err
    assert (tmp_path / "x.yaml").read_text() == "mine"
    assert in_process("init", "x.yaml", "--force") == 0
    assert (tmp_path / "x.yaml").read_text().startswith("# ")
    (tmp_path / "folder.yaml").mkdir()
    assert in_process("init", "folder.yaml", "--force") == 2
    assert "cannot write folder.yaml" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["X.yaml", "x.json", "x", "a_b.yaml", "a b.yaml", "x\n.yaml", ".yaml", "-x.yaml"])
def test_init_refuses_a_name_that_no_plan_can_have(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`planc init` writes no plan that `planc lint` would refuse for its name."""
    monkeypatch.chdir(tmp_path)
    assert in_process("init", "--", name) == 2
    assert "planc init: " in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_json_output_is_a_list_of_findings(planc: Planc, write_plan: Callable[..., Path]) -> None:
    """`lint --format json` prints one array of objects with code, name, severity, message and span, and nothing else."""
    write_plan(ERROR)
    done = planc("lint", "plan.yaml", "--format", "json")
    assert (done.returncode, done.stderr) == (1, "")
    (item,) = json.loads(done.stdout)
    assert {key: item[key] for key in ("code", "name", "severity", "span")} == {
        "code": "P104",
        "name": "wrong-value",
        "severity": "error",
        "span": {"path": "plan.yaml", "line": 4, "column": 31, "end_line": 4, "end_column": 35},
    }
    assert "`eger`" in item["message"]
    assert "eager" in item["hint"]


@pytest.mark.parametrize(("text", "count", "code"), [(CLEAN, 0, 0), (NOTE, 1, 0), (WARNING, 1, 1), (None, 1, 2)])
def test_json_output_is_json_whatever_was_found(
    text: str | None, count: int, code: int, write_plan: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """`lint --format json` prints an array even where nothing was found or a file is missing; the code is the same."""
    path = Path("/nowhere/plan.yaml") if text is None else write_plan(text)
    assert in_process("lint", str(path), "--format", "json") == code
    assert len(json.loads(capsys.readouterr().out)) == count


def test_errors_of_a_build_go_to_stderr(planc: Planc, write_plan: Callable[..., Path]) -> None:
    """`planc build` prints what is wrong with a plan to stderr, and nothing to stdout."""
    write_plan(ERROR)
    done = planc("build", "plan.yaml")
    assert (done.returncode, done.stdout) == (1, "")
    assert "error[P104]" in done.stderr
    assert "\n1 error\n" in done.stderr


def test_messages_go_to_the_stderr_of_the_moment(
    write_plan: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """Where a program runs planc in its own process, messages go to the stderr it has now, not to that of the import."""
    assert in_process("build", str(write_plan(ERROR)), "--output", "/nowhere") == 1
    assert "error[P104]" in capsys.readouterr().err


def test_ctrl_c_ends_with_130(tmp_path: Path) -> None:
    """Ctrl-C while planc works ends with 130 and one line, no traceback."""
    os.mkfifo(tmp_path / "plan.yaml")
    child = subprocess.Popen(
        [sys.executable, "-m", "planc", "lint", "plan.yaml"], cwd=tmp_path, stderr=subprocess.PIPE, text=True
    )
    writer = -1
    deadline = time.monotonic() + 60
    while writer < 0 and time.monotonic() < deadline:
        try:
            writer = os.open(tmp_path / "plan.yaml", os.O_WRONLY | os.O_NONBLOCK)
        except OSError as error:
            assert error.errno == errno.ENXIO, "planc does not read the plan yet"
            time.sleep(0.02)
    try:
        child.send_signal(signal.SIGINT)
        _, said = child.communicate(timeout=60)
    finally:
        os.close(writer)
    assert (child.returncode, said) == (130, "planc: interrupted\n")


@pytest.mark.parametrize(
    "arguments",
    [("rules",), ("schema",), ("explain", "P301"), ("lint", "plan.yaml"), ("build", "plan.yaml", "--show-program")],
    ids=" ".join,
)
def test_a_reader_that_went_away_is_no_error(arguments: tuple[str, ...], write_plan: Callable[..., Path]) -> None:
    """Output into a pipe that nobody reads any more, as of `| head -1`, ends quietly with 0."""
    folder = write_plan(ERROR if arguments[0] == "lint" else CLEAN).parent
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "planc", *arguments],
        cwd=folder,
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")


def test_head_reads_the_first_line(tmp_path: Path) -> None:
    """`planc rules | head -1` prints the first line and nothing of a broken pipe."""
    done = subprocess.run(
        ["sh", "-c", f"'{sys.executable}' -m planc rules | head -1"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (len(done.stdout.splitlines()), done.stderr) == (1, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("redirection", [">&-", "> /dev/full"])
def test_an_output_that_takes_nothing_is_no_bug(redirection: str, tmp_path: Path) -> None:
    """A closed or full standard output is the user's to mend: no traceback, and no word of a bug in planc."""
    done = subprocess.run(
        ["sh", "-c", f"'{sys.executable}' -m planc rules {redirection}"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in done.stderr
    assert "bug in planc" not in done.stderr
    assert done.returncode != 3


def test_a_terminal_that_knows_few_letters_is_no_bug(planc: Planc, write_plan: Callable[..., Path]) -> None:
    """What the output's encoding lacks is shown some other way: never an error of planc."""
    write_plan(CLEAN.replace("eager:", "eager: {extends: 漢字}\n  other:", 1))
    done = planc("lint", "plan.yaml", env={"PYTHONIOENCODING": "ascii:strict"})
    assert "Traceback" not in done.stderr
    assert done.returncode == 1
    assert "P107" in done.stdout


def test_a_bug_is_told_as_a_bug(
    write_plan: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An exception that planc does not expect ends with 3, its traceback, the version and a request to report it."""

    def broken(*_: object) -> None:
        raise ZeroDivisionError("made up")

    monkeypatch.setattr(pipeline, "check", broken)
    monkeypatch.setattr(sys, "argv", ["planc", "lint", str(write_plan(CLEAN))])
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert end.value.code == 3
    said = capsys.readouterr().err
    assert "ZeroDivisionError: made up" in said
    assert f"planc {package.__version__}: this is a bug in planc, not in your plan" in said


def test_generated_sources_are_in_step(planc: Planc, root: Path) -> None:
    """`planc sync --check --no-cards` passes in the checkout: schemas and reference pages are what their sources give."""
    done = planc("sync", "--check", "--no-cards", cwd=root)
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr


def test_sync_shows_what_is_out_of_step(planc: Planc, root: Path, tmp_path: Path) -> None:
    """`planc sync --check` of a checkout whose schema was edited fails with the diff and the command, and writes nothing."""
    copy = tmp_path / "checkout"
    copy.mkdir()
    for name in ("planc", "schemas", "templates", "docs"):
        shutil.copytree(root / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(root / "pyproject.toml", copy)
    schema = copy / "schemas/plan.schema.json"
    text = schema.read_text()
    schema.write_text(text.replace('"type": "object"', '"type": "array"', 1))
    edited = schema.read_text()
    assert edited != text
    done = planc("sync", "--check", "--no-cards", cwd=copy)
    assert done.returncode == 1
    assert "--- schemas/plan.schema.json" in done.stdout
    assert re.search(r'^-\s+"type": "array"', done.stdout, re.MULTILINE)
    assert re.search(r'^\+\s+"type": "object"', done.stdout, re.MULTILINE)
    assert re.fullmatch(r"1 of \d+ files are out of step: run `planc sync`\n", done.stderr)
    assert schema.read_text() == edited


def tracked(root: Path) -> list[Path]:
    """The files that are committed, or about to be."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root,
        capture_output=True,
        check=True,
    ).stdout.decode()
    return [root / name for name in listed.split("\0") if name and (root / name).is_file()]


def test_no_file_names_a_registry(root: Path) -> None:
    """No committed file holds the address of a package registry: which one serves is the user's configuration."""
    files = tracked(root)
    assert len(files) > 60
    addresses = [("pypi" + ".org").encode(), ("python" + "hosted").encode(), ("download.py" + "torch.org").encode()]
    found = [
        path.relative_to(root).as_posix() for path in files if any(item in path.read_bytes() for item in addresses)
    ]
    assert found == []


def test_the_version_stands_in_one_place(root: Path, planc: Planc) -> None:
    """planc's version stands in `planc/__init__.py` alone; the project's metadata and `--version` read it there."""
    project = tomllib.loads((root / "pyproject.toml").read_text())
    assert "version" not in project["project"]
    assert project["project"]["dynamic"] == ["version"]
    assert project["tool"]["hatch"]["version"] == {"path": "planc/__init__.py"}
    assert planc("--version").stdout == f"planc {package.__version__}\n"
    assert version("planc") == package.__version__
    holders = [
        path.relative_to(root).as_posix()
        for path in tracked(root)
        if path.suffix in (".py", ".toml", ".j2", ".json") and f'"{package.__version__}"' in path.read_text()
    ]
    assert holders == ["planc/__init__.py"]
