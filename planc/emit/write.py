"""{path: text} → the output folder: all or nothing, and never over a file that someone edited."""

from __future__ import annotations

import contextlib
import difflib
import json
import os
import re
import shutil
import signal
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from planc.diagnostics import Diagnostic, Span
from planc.emit.files import MANIFEST, GeneratedFile
from planc.faults import EDITED_BY_HAND
from planc.resources import digest

_FILE_NAME = re.compile(r"[a-z0-9_]+\.(py|sh)")
"""The names that planc gives to files, so that no manifest can name a file elsewhere."""

MAX_DIFF_LINES = 60
"""Lines of a diff that `--check` shows of one file."""


@dataclass(frozen=True, slots=True)
class Change:
    """A file that differs from what the plan gives: `now` is None where it is missing, `wanted` where it should go."""

    path: Path
    now: str | None
    wanted: str | None

    def diff(self) -> str:
        """A unified diff from what is there to what the plan gives."""
        lines = list(
            difflib.unified_diff(
                _rows(self.now),
                _rows(self.wanted),
                f"{self.path} (now)" if self.now is not None else "/dev/null",
                f"{self.path} (from the plan)" if self.wanted is not None else "/dev/null",
                lineterm="",
            )
        )
        more = len(lines) - MAX_DIFF_LINES
        return "\n".join(lines[:MAX_DIFF_LINES] + ([f"… {more} more lines"] if more > 0 else []))


def _rows(text: str | None) -> list[str]:
    """The lines of a file with every line end but the usual one made visible."""
    if not text:
        return []
    rows = text.replace("\r", "\\r").split("\n")
    return rows[:-1] if rows[-1] == "" else [*rows, "\\ no line end at the end of the file"]


def compare(output: Path, folder: str, files: Sequence[GeneratedFile]) -> list[Change]:
    """What differs below `output/folder`; files that planc once wrote and the plan no longer gives count too."""
    wanted = {file.path: file for file in files}
    paths = [*wanted, *(path for path in _recorded(output, folder) if path not in wanted)]
    changes = []
    for path in paths:
        file, place = wanted.get(path), output / path
        now = _read(place)
        has_lost_bit = file is not None and file.is_executable and not os.access(place, os.X_OK)
        text = None if file is None else file.text
        if now != text or has_lost_bit:
            changes.append(Change(place, now, text))
    return changes


def conflicts(output: Path, folder: str, files: Sequence[GeneratedFile]) -> Iterator[Diagnostic]:
    """The files that writing would lose someone's work in."""
    recorded = _recorded(output, folder)
    for change in compare(output, folder, files):
        path = change.path.relative_to(output).as_posix()
        is_ours = path == f"{folder}/{MANIFEST}" or change.now in (None, change.wanted)
        if is_ours or (change.now is not None and recorded.get(path) == digest(change.now)):
            continue
        span = Span(str(change.path), 1, 1, 1, 1)
        was = "was edited by hand" if path in recorded else "was not written by planc"
        yield EDITED_BY_HAND.at(
            span,
            f"{change.path} {was}",
            hint="move the change into the plan, or write over it with --force",
        )


def write(output: Path, trees: Sequence[tuple[str, Sequence[GeneratedFile]]]) -> list[Change]:
    """Write every tree, or leave all as it was; returns what changed.

    Each file is written whole beside the output first, then put in place by a rename, with signals held back in
    between, so that an interrupt leaves the old trees or the new ones.

    Raises:
        OSError: the output folder cannot be written.
        ValueError: a path would leave its folder.
    """
    changes = [change for folder, files in trees for change in compare(output, folder, files)]
    if not changes:
        return []
    programs = {output / file.path for _, files in trees for file in files if file.is_executable}
    output.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=".planc-", dir=output))
    try:
        staged = [
            _stage(change, staging, index, output, change.path in programs) for index, change in enumerate(changes)
        ]
        with _signals_held():
            _put_in_place(changes, staged, staging)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return changes


def _put_in_place(changes: Sequence[Change], staged: Sequence[Path | None], staging: Path) -> None:
    """Rename every staged file into place; where one fails, put back those before it."""
    kept: list[tuple[Path, Path | None]] = []
    made: list[Path] = []
    try:
        for index, (change, file) in enumerate(zip(changes, staged, strict=True)):
            if not change.path.parent.exists():
                change.path.parent.mkdir()
                made.append(change.path.parent)
            old = staging / f"{index}.old" if change.now is not None else None
            if old is not None:
                shutil.copy2(change.path, old)
            kept.append((change.path, old))
            if file is None:
                change.path.unlink()
            else:
                os.replace(file, change.path)
    except BaseException:
        for path, old in reversed(kept):
            if old is None:
                path.unlink(missing_ok=True)
            else:
                old.replace(path)
        for folder in made:
            folder.rmdir()
        raise


def _stage(change: Change, staging: Path, index: int, output: Path, is_executable: bool) -> Path | None:
    if not change.path.resolve().is_relative_to(output.resolve()):
        raise ValueError(f"{change.path} would leave {output}")
    if change.wanted is None:
        return None
    file = staging / str(index)
    file.write_text(change.wanted, encoding="utf-8", newline="\n")
    if is_executable:
        file.chmod(file.stat().st_mode | 0o111)
    return file


def _recorded(output: Path, folder: str) -> dict[str, str]:
    """Path → digest of each file that the last build wrote."""
    try:
        files = json.loads((output / folder / MANIFEST).read_text(encoding="utf-8"))["files"]
        names = {name: str(value) for name, value in files.items() if _FILE_NAME.fullmatch(name)}
    except (OSError, ValueError, KeyError, AttributeError, TypeError):
        return {}
    return {f"{folder}/{name}": value for name, value in names.items()}


def _read(path: Path) -> str | None:
    try:
        return path.read_bytes().decode("utf-8", "surrogateescape")
    except FileNotFoundError:
        return None


@contextlib.contextmanager
def _signals_held() -> Iterator[None]:
    """Hold back what would stop the process; it arrives after."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    old = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM, signal.SIGHUP})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, old)
