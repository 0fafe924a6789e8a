"""The output folder: all or nothing, never over a file that someone edited, never outside itself."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from planc import cli
from planc.emit import python, write
from planc.emit.files import MANIFEST, GeneratedFile
from planc.resources import digest

Planc = Callable[..., "subprocess.CompletedProcess[str]"]
Snapshot = dict[str, tuple[bytes | str, int, int]]

HEAD = "version: 1\nmodel: {checkpoint: black-forest-labs/FLUX.2-klein-4B}\n"
PLAN = HEAD + (
    "targets:\n"
    "  eager: {device: cuda, mode: eager}\n"
    "  tp: {device: cuda, mode: eager, tensor_parallel: {degree: 2, plan: class}}\n"
)
CHANGED = PLAN.replace("targets:", "seed: 7\ntargets:")
WITHOUT_TP = "".join(line for line in PLAN.splitlines(keepends=True) if not line.startswith("  tp:"))


def snapshot(folder: Path, *, with_times: bool = True) -> Snapshot:
    """Every file below a folder: what it holds, its mode, and when it was written."""
    found: Snapshot = {}
    for path in sorted(folder.rglob("*")):
        state = path.lstat()
        content = os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else ""
        time = state.st_mtime_ns if with_times and not path.is_dir() else 0
        found[path.relative_to(folder).as_posix()] = (content, state.st_mode, time)
    return found


def tree(folder: str, **texts: str) -> tuple[str, list[GeneratedFile]]:
    """A folder with its manifest, as `emit` gives it; files that end in `_sh` are programs."""
    files = [
        GeneratedFile(f"{folder}/{name.replace('_', '.')}", text, name.endswith("_sh")) for name, text in texts.items()
    ]
    record = {"files": {file.path.partition("/")[2]: digest(file.text) for file in files}}
    return folder, [*files, GeneratedFile(f"{folder}/{MANIFEST}", json.dumps(record))]


OLD = [tree("one", a_py="a 1\n", b_sh="b 1\n", gone_py="gone\n"), tree("two", c_py="c 1\n")]
NEW = [tree("one", a_py="a 2\n", b_sh="b 2\n", d_py="d 2\n"), tree("two", c_py="c 2\n"), tree("three", e_py="e 2\n")]


@pytest.fixture
def output(tmp_path: Path) -> Path:
    """An output folder that holds the old trees and a file of the user's."""
    folder = tmp_path / "out"
    write.write(folder, OLD)
    (folder / "one" / "notes.txt").write_text("mine")
    return folder


@pytest.fixture
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Run `planc build` in this process, in a temporary folder; the gate, which has its own tests, is left out."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(python, "gate", lambda _, text: text)

    def run(text: str, *arguments: str) -> int:
        Path("plan.yaml").write_text(text)
        return cli.run(["build", "plan.yaml", "--output", "out", *arguments])

    return run


def is_whole(folder: Path, *states: Snapshot) -> bool:
    """Whether the folder is in exactly one of the states, times left out."""
    now = snapshot(folder, with_times=False)
    return any(now == state for state in states)


def states(tmp_path: Path) -> Iterator[Snapshot]:
    """The old trees and the new ones, with the user's file, as snapshots."""
    for number, trees in enumerate((OLD, NEW)):
        folder = tmp_path / f"state-{number}"
        for item in (OLD, trees):
            write.write(folder, item)
        (folder / "one" / "notes.txt").write_text("mine")
        yield snapshot(folder, with_times=False)


def interrupt_at(patch: pytest.MonkeyPatch, owner: Any, name: str, call: int, act: Callable[[], object]) -> None:
    """Let the `call`-th call of a function do something else first."""
    real = getattr(owner, name)
    count = 0

    def instead(*args: Any, **kwargs: Any) -> Any:
        nonlocal count
        count += 1
        if count == call:
            act()
        return real(*args, **kwargs)

    patch.setattr(owner, name, instead)


def interrupted() -> None:
    """As Python's own handler of Ctrl-C does."""
    raise KeyboardInterrupt


def failed() -> None:
    """As a disk that is full."""
    raise OSError(28, "No space left on device")


def test_a_build_writes_the_whole_tree(output: Path) -> None:
    """A write gives every file its text, makes shell files executable and others not, and leaves nothing else."""
    assert (output / "one/a.py").read_bytes() == b"a 1\n"
    assert (output / "one/b.sh").stat().st_mode & 0o111 == 0o111
    assert (output / "one/a.py").stat().st_mode & 0o111 == 0
    assert set(snapshot(output)) == {
        *("one", "one/a.py", "one/b.sh", "one/gone.py", "one/manifest.json", "one/notes.txt"),
        *("two", "two/c.py", "two/manifest.json"),
    }


def test_a_second_build_changes_nothing(build: Callable[..., int], tmp_path: Path) -> None:
    """Building the same plan again writes nothing at all: contents, modes and times stay, folders included."""
    assert build(PLAN) == 0
    os.utime(tmp_path / "out", (1, 1))
    os.utime(tmp_path / "out/plan", (1, 1))
    before = snapshot(tmp_path / "out")
    assert build(PLAN) == 0
    assert snapshot(tmp_path / "out") == before
    assert (tmp_path / "out/plan").stat().st_mtime == 1
    assert (tmp_path / "out").stat().st_mtime == 1


def test_only_what_changed_is_written(output: Path) -> None:
    """A build touches the files that differ and no others, and says which."""
    before = snapshot(output)
    changes = write.write(output, [tree("one", a_py="a 1\n", b_sh="b 2\n"), OLD[1]])
    assert {(change.path.name, change.wanted is None) for change in changes} == {
        ("b.sh", False),
        ("gone.py", True),
        ("manifest.json", False),
    }
    after = snapshot(output)
    assert {name for name in after if after[name] != before[name]} == {"one/b.sh", "one/manifest.json"}
    assert "one/gone.py" not in after


def test_the_users_files_survive(build: Callable[..., int], tmp_path: Path) -> None:
    """Files that planc did not write stay as they are, whatever is built, forced or removed beside them."""
    build(PLAN)
    mine = {"out/plan/notes.txt": "a", "out/plan/__pycache__/x.pyc": "b", "out/other/eager.py": "c", "out/top.py": "d"}
    for name, text in mine.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert build(CHANGED) == 0
    assert build(WITHOUT_TP, "--force") == 0
    assert {name: (tmp_path / name).read_text() for name in mine} == mine
    assert not (tmp_path / "out/plan/tp.py").exists()


def test_an_edited_file_is_not_overwritten(build: Callable[..., int], planc: Planc, tmp_path: Path) -> None:
    """A file edited by hand stops the build with P802 and its path; nothing at all is written, until --force."""
    build(PLAN)
    edited = tmp_path / "out/plan/eager.py"
    edited.write_text(edited.read_text() + "# mine\n")
    before = snapshot(tmp_path / "out")
    (tmp_path / "plan.yaml").write_text(CHANGED)
    refused = planc("build", "plan.yaml", "--output", "out")
    assert refused.returncode == 1
    assert "error[P802] edited-by-hand: out/plan/eager.py was edited by hand" in refused.stderr
    assert "--force" in refused.stderr
    assert "tp.py" not in refused.stderr
    assert snapshot(tmp_path / "out") == before
    assert build(CHANGED, "--force") == 0
    assert "# mine" not in edited.read_text()
    assert build(CHANGED, "--check") == 0


def test_an_edit_that_gives_what_the_plan_gives_is_no_edit(build: Callable[..., int], tmp_path: Path) -> None:
    """A file whose text is what the plan gives now is fine, whoever wrote it."""
    build(PLAN)
    old = (tmp_path / "out/plan/eager.py").read_text()
    build(CHANGED)
    (tmp_path / "out/plan/eager.py").write_text(old)
    assert build(PLAN) == 0


def test_a_foreign_file_in_the_way_is_not_overwritten(planc: Planc, tmp_path: Path) -> None:
    """Files of another origin at paths that planc would write stop the build with P802, each at its path."""
    (tmp_path / "plan.yaml").write_text(PLAN)
    (tmp_path / "out/plan").mkdir(parents=True)
    for name in ("eager.py", "tp.sh"):
        (tmp_path / "out/plan" / name).write_text("mine\n")
    refused = planc("build", "plan.yaml", "--output", "out")
    assert refused.returncode == 1
    for name in ("eager.py", "tp.sh"):
        assert f"error[P802] edited-by-hand: out/plan/{name} was not written by planc" in refused.stderr
    assert set(snapshot(tmp_path / "out")) == {"plan", "plan/eager.py", "plan/tp.sh"}


def test_a_removed_targets_files_are_removed(build: Callable[..., int], tmp_path: Path) -> None:
    """The files of a target that the plan no longer has are removed, and only they."""
    build(PLAN)
    assert {path.name for path in (tmp_path / "out/plan").iterdir()} == {
        *("eager.py", "tp.py", "tp.sh", "tp_plan.py", "manifest.json"),
    }
    assert build(WITHOUT_TP) == 0
    assert {path.name for path in (tmp_path / "out/plan").iterdir()} == {"eager.py", "manifest.json"}


def test_a_removed_targets_file_is_kept_if_it_was_edited(build: Callable[..., int], tmp_path: Path) -> None:
    """A file of a target that the plan no longer has is not removed if it was edited, unless forced."""
    build(PLAN)
    (tmp_path / "out/plan/tp.sh").write_text("mine\n")
    before = snapshot(tmp_path / "out")
    assert build(WITHOUT_TP) == 1
    assert snapshot(tmp_path / "out") == before
    assert build(WITHOUT_TP, "--force") == 0
    assert not (tmp_path / "out/plan/tp.sh").exists()


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"files": 1}', '{"files": {"eager.py": 1}}', "\udcff"])
def test_a_damaged_manifest_loses_no_one_work(text: str, build: Callable[..., int], tmp_path: Path) -> None:
    """Without a readable manifest every file that differs counts as someone's work; those that do not differ are fine."""
    build(PLAN)
    manifest = tmp_path / "out/plan/manifest.json"
    manifest.write_bytes(text.encode("utf-8", "surrogateescape"))
    before = snapshot(tmp_path / "out")
    assert build(CHANGED) == 1
    assert snapshot(tmp_path / "out") == before
    assert build(PLAN) == 0
    assert build(CHANGED) == 0


@pytest.mark.parametrize("name", ["../victim.txt", "/etc/hostname", "..", "sub/victim.txt", ".", "", "a\0b"])
def test_a_manifest_cannot_name_files_elsewhere(name: str, build: Callable[..., int], tmp_path: Path) -> None:
    """What a manifest lists outside its folder is neither removed nor read as planc's own."""
    build(PLAN)
    (tmp_path / "out/victim.txt").write_text("mine")
    (tmp_path / "out/plan/sub").mkdir()
    (tmp_path / "out/plan/sub/victim.txt").write_text("mine")
    manifest = tmp_path / "out/plan/manifest.json"
    data = json.loads(manifest.read_text())
    data["files"][name] = digest("mine")
    manifest.write_text(json.dumps(data))
    assert build(CHANGED, "--force") == 0
    assert (tmp_path / "out/victim.txt").read_text() == "mine"
    assert (tmp_path / "out/plan/sub/victim.txt").read_text() == "mine"
    assert build(CHANGED, "--check") == 0


@pytest.fixture
def every_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[bool]]:
    """Write the new trees over the old ones again and again, with something else done first at each call of a function.

    Every outcome is the old trees whole or the new ones, without a trace of the staging; gives for each call whether
    it was the new ones. Ends when the function is not called as often any more.
    """
    old, new = states(tmp_path)

    def run(owner: Any, name: str, act: Callable[[], object], expected: type[BaseException]) -> list[bool]:
        outcomes: list[bool] = []
        for call in range(1, 100):
            folder = tmp_path / f"{name}-{call}"
            write.write(folder, OLD)
            (folder / "one/notes.txt").write_text("mine")
            with monkeypatch.context() as patch:
                interrupt_at(patch, owner, name, call, act)
                try:
                    write.write(folder, NEW)
                    return outcomes
                except expected:
                    outcomes.append(is_whole(folder, new))
            assert is_whole(folder, old, new), (call, sorted(snapshot(folder)))
        raise AssertionError("a function that is called without end")

    return run


@pytest.mark.parametrize(("owner", "name"), [(write, "_stage"), (Path, "write_text")], ids=["stage", "write"])
@pytest.mark.parametrize("act", [interrupted, failed])
def test_an_end_while_staging_leaves_the_old_trees(
    owner: Any, name: str, act: Callable[[], None], every_point: Callable[..., list[bool]]
) -> None:
    """An interrupt or a full disk while the files are written beside the output leaves the old trees, and no staging."""
    outcomes = every_point(owner, name, act, KeyboardInterrupt if act is interrupted else OSError)
    assert len(outcomes) >= 7
    assert not any(outcomes)


def test_a_failure_while_renaming_leaves_whole_trees(every_point: Callable[..., list[bool]]) -> None:
    """A rename that fails, as in a folder that may not be written, leaves the old trees whole or the new ones."""
    assert len(every_point(os, "replace", failed, OSError)) >= 7


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="signals cannot be held back here")
@pytest.mark.parametrize(
    ("owner", "name", "is_new"),
    [
        (write, "_stage", False),
        (Path, "write_text", False),
        (os, "replace", True),
        (Path, "unlink", True),
        (Path, "mkdir", None),
    ],
    ids=["stage", "write", "replace", "unlink", "mkdir"],
)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_at_any_point_leaves_whole_trees(
    owner: Any, name: str, is_new: bool | None, number: signal.Signals, every_point: Callable[..., list[bool]]
) -> None:
    """A real signal at any point leaves whole trees: the old ones while files are staged, the new ones after."""
    handler = signal.signal(number, signal.default_int_handler)
    try:
        outcomes = every_point(owner, name, lambda: signal.raise_signal(number), KeyboardInterrupt)
    finally:
        signal.signal(number, handler)
    assert outcomes
    assert is_new is None or set(outcomes) == {is_new}


INTERRUPTED_BUILD = """
import os, signal, sys
from planc import cli
count, real = 0, os.replace
def replace(*args):
    global count
    count += 1
    if count == 2:
        os.kill(os.getpid(), signal.SIGINT)
    real(*args)
os.replace = replace
sys.argv = ["planc", "build", "plan.yaml", "--output", "out"]
cli.main()
"""


def test_ctrl_c_while_renaming_ends_after_the_last_file(build: Callable[..., int], tmp_path: Path) -> None:
    """Ctrl-C in the middle of the renames takes effect after the last: the new tree is whole, and the exit code 130."""
    build(WITHOUT_TP)
    (tmp_path / "plan.yaml").write_text(CHANGED)
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_BUILD], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (130, "planc: interrupted\n")
    assert build(CHANGED, "--check") == 0
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["plan"]


def obstacle(kind: str, tmp_path: Path) -> str:
    """Make an output folder that cannot be written; its path."""
    match kind:
        case "a file":
            (tmp_path / "out").write_text("mine")
        case "below a file":
            (tmp_path / "file").write_text("mine")
            return "file/out"
        case "its folder is a file":
            (tmp_path / "out").mkdir()
            (tmp_path / "out/plan").write_text("mine")
        case "a folder is in the way":
            (tmp_path / "out/plan/eager.py").mkdir(parents=True)
        case "not a real file system":
            return "/proc/planc"
        case "a name too long":
            return "x" * 300
        case "a link in a circle":
            (tmp_path / "out").symlink_to("out")
    return "out"


@pytest.mark.parametrize(
    "kind",
    [
        "a file",
        "below a file",
        "its folder is a file",
        "a folder is in the way",
        "not a real file system",
        "a name too long",
        "a link in a circle",
    ],
)
@pytest.mark.parametrize("option", ["", "--force", "--check"])
def test_an_output_that_cannot_be_written_is_told_plainly(
    kind: str, option: str, build: Callable[..., int], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Where the output cannot be written the build ends with 2 and a line that says why; a check may say it is stale."""
    place = obstacle(kind, tmp_path)
    before = snapshot(tmp_path)
    code = build(PLAN, "--output", place, *([option] if option else []))
    (tmp_path / "plan.yaml").unlink()
    assert code == 2 or (option == "--check" and code == 1)
    if code == 2:
        assert f"planc build: cannot write below {place}: " in capfd.readouterr().err
    assert snapshot(tmp_path) == before


def test_a_folder_that_may_not_be_written_is_told_plainly(planc: Planc, tmp_path: Path) -> None:
    """A refused permission is one line with the folder and the reason, no traceback."""
    (tmp_path / "plan.yaml").write_text(PLAN)
    (tmp_path / "out").mkdir(mode=0o555)
    if os.access(tmp_path / "out", os.W_OK):
        pytest.skip("this user may write everywhere")
    done = planc("build", "plan.yaml", "--output", "out")
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("planc build: cannot write below out: ")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("link", ["plan", "plan/eager.py", "plan/tp.sh", "plan/manifest.json"])
@pytest.mark.parametrize("is_broken", [False, True])
def test_a_link_out_of_the_output_is_refused(
    link: str, is_broken: bool, build: Callable[..., int], tmp_path: Path
) -> None:
    """A symbolic link that leads out of the output folder is neither followed nor replaced, forced or not."""
    outside = tmp_path / "outside"
    if not is_broken:
        outside.mkdir() if link == "plan" else outside.write_text("mine")
    (tmp_path / "out" / link).parent.mkdir(parents=True)
    (tmp_path / "out" / link).symlink_to(outside)
    before = snapshot(tmp_path)
    assert build(PLAN) in (1, 2)
    assert build(PLAN, "--force") == 2
    (tmp_path / "plan.yaml").unlink()
    assert snapshot(tmp_path) == before


def test_a_removed_file_behind_a_link_is_not_removed(build: Callable[..., int], tmp_path: Path) -> None:
    """A folder that was replaced by a link out of the output loses no file to a removal."""
    build(PLAN)
    shutil.move(tmp_path / "out/plan", tmp_path / "outside")
    (tmp_path / "out/plan").symlink_to(tmp_path / "outside")
    before = snapshot(tmp_path / "outside")
    assert build(WITHOUT_TP) == 2
    assert snapshot(tmp_path / "outside") == before


def test_an_output_that_is_itself_a_link_is_fine(build: Callable[..., int], tmp_path: Path) -> None:
    """The output folder may be a symbolic link: the user chose it."""
    (tmp_path / "real").mkdir()
    (tmp_path / "out").symlink_to("real")
    assert build(PLAN) == 0
    assert (tmp_path / "real/plan/tp.sh").exists()


def test_one_bad_plan_of_two_writes_nothing(planc: Planc, tmp_path: Path) -> None:
    """If one of several plans has an error nothing is written, of the good ones neither."""
    (tmp_path / "good.yaml").write_text(PLAN)
    (tmp_path / "wrong.yaml").write_text(PLAN.replace("degree: 2", "degree: 5"))
    done = planc("build", "good.yaml", "wrong.yaml")
    assert done.returncode == 1
    assert "P301" in done.stderr
    assert not (tmp_path / "generated").exists()


def test_one_missing_plan_of_two_writes_nothing(planc: Planc, tmp_path: Path) -> None:
    """If one of several plans cannot be read nothing is written, and the exit code is 2."""
    (tmp_path / "good.yaml").write_text(PLAN)
    done = planc("build", "good.yaml", "missing.yaml")
    assert done.returncode == 2
    assert "P001" in done.stderr
    assert not (tmp_path / "generated").exists()


def test_two_plans_of_one_name_are_refused(planc: Planc, tmp_path: Path) -> None:
    """Two plans that would write one folder are refused by name, and nothing is written."""
    for name in ("a/plan.yaml", "b/plan.yml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(WITHOUT_TP)
    done = planc("build", "a/plan.yaml", "b/plan.yml")
    assert done.returncode == 2
    assert "two plans are called 'plan'" in done.stderr
    assert not (tmp_path / "generated").exists()


def test_a_plan_given_twice_is_built_once(planc: Planc, tmp_path: Path) -> None:
    """One plan named in two ways, as by its folder and by itself, is one plan."""
    (tmp_path / "plans").mkdir()
    (tmp_path / "plans/plan.yaml").write_text(WITHOUT_TP)
    done = planc("build", "plans", "plans/plan.yaml", "./plans/plan.yaml")
    assert (done.returncode, done.stderr.count("wrote")) == (0, 2), done.stderr


def test_a_check_shows_what_is_stale(build: Callable[..., int], planc: Planc, tmp_path: Path) -> None:
    """`--check` fails with a unified diff for edited, missing and left-over files, says each, and writes nothing."""
    build(PLAN)
    folder = tmp_path / "out/plan"
    text = (folder / "eager.py").read_text()
    (folder / "eager.py").write_text(text.replace('"--seed", type=int, default=0', '"--seed", type=int, default=1'))
    (folder / "tp.py").unlink()
    (tmp_path / "plan.yaml").write_text(WITHOUT_TP.replace("targets:", "targets:\n  new: {device: cpu, mode: eager}"))
    before = snapshot(tmp_path)
    done = planc("build", "--check", "plan.yaml", "--output", "out")
    assert done.returncode == 1
    assert snapshot(tmp_path) == before
    lines = done.stdout.splitlines()
    edited = lines.index("--- out/plan/eager.py (now)")
    assert lines[edited + 1] == "+++ out/plan/eager.py (from the plan)"
    assert lines[edited + 2].startswith("@@ ")
    assert '-    parser.add_argument("--seed", type=int, default=1)' in lines
    assert '+    parser.add_argument("--seed", type=int, default=0)' in lines
    assert lines[lines.index("--- /dev/null") + 1] == "+++ out/plan/new.py (from the plan)"
    assert lines[lines.index("--- out/plan/tp.sh (now)") + 1] == "+++ /dev/null"
    assert "error[P803] stale-output: out/plan/eager.py is stale" in done.stderr
    assert "error[P803] stale-output: out/plan/new.py is missing" in done.stderr
    for name in ("tp.sh", "tp_plan.py"):
        assert f"error[P803] stale-output: out/plan/{name} is left over" in done.stderr
    assert "out/plan/tp.py" not in done.stderr, "it is gone already"
    assert "5 errors" in done.stderr
    assert "planc build" in done.stderr


def test_a_check_of_a_clean_tree_is_silent(build: Callable[..., int], planc: Planc, tmp_path: Path) -> None:
    """`--check` of an up-to-date tree says nothing and ends with 0."""
    build(WITHOUT_TP)
    done = planc("build", "--check", "plan.yaml", "--output", "out")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_check_shows_bytes_that_are_no_text(build: Callable[..., int], planc: Planc, tmp_path: Path) -> None:
    """`--check` of a file with bytes that are not UTF-8 shows a diff like any other."""
    build(WITHOUT_TP)
    file = tmp_path / "out/plan/eager.py"
    file.write_bytes(file.read_bytes() + b"# caf\xe9\n")
    done = planc("build", "--check", "plan.yaml", "--output", "out", env={"PYTHONIOENCODING": "utf-8:strict"})
    assert done.returncode == 1, done.stderr
    assert "-# caf" in done.stdout


@pytest.mark.parametrize("change", ["carriage returns", "no last line end"])
def test_a_check_shows_line_endings(
    change: str, build: Callable[..., int], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A file that differs in line endings only is stale, and its diff is not empty."""
    build(WITHOUT_TP)
    file = tmp_path / "out/plan/eager.py"
    text = file.read_bytes()
    file.write_bytes(text.rstrip(b"\n") if change == "no last line end" else text.replace(b"\n", b"\r\n"))
    assert build(WITHOUT_TP, "--check") == 1
    assert "@@" in capfd.readouterr().out


def test_a_lost_executable_bit_is_restored(build: Callable[..., int], tmp_path: Path) -> None:
    """A shell file that may no longer be executed is stale, and a build mends it."""
    build(PLAN)
    (tmp_path / "out/plan/tp.sh").chmod(0o644)
    assert build(PLAN, "--check") == 1
    assert build(PLAN) == 0
    assert os.access(tmp_path / "out/plan/tp.sh", os.X_OK)


def test_the_manifest_says_what_was_written(build: Callable[..., int], tmp_path: Path) -> None:
    """The manifest holds the digest of every file beside it, of the plan's text, and no path of this machine."""
    build(PLAN)
    folder = tmp_path / "out/plan"
    data = json.loads((folder / "manifest.json").read_text())
    assert data["files"] == {
        path.name: digest(path.read_text()) for path in folder.iterdir() if path.name != "manifest.json"
    }
    assert data["plan"] == {"file": "plan.yaml", "sha256": digest(PLAN)}
    assert set(data) == {"version", "plan", "cards", "files"}
