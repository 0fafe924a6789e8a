"""Runs a child process to its end: its exit code is honoured, signals reach it, and nothing outlives it."""

from __future__ import annotations

import contextlib
import ctypes
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from types import FrameType

POLL_SECONDS = 0.2
PR_SET_CHILD_SUBREAPER = 36
"""Linux, <linux/prctl.h>: orphans below this process become its children."""
TORCHRUN_FAILED = 1
"""torchrun's exit code after a signal too, as after a rank's failure (torch 2.13): then the signal is what to tell."""
GRACE_SECONDS = 35
"""torchrun gives its ranks 30 seconds to stop before it kills them (torch 2.13, --shutdown default)."""


def run_child(command: Sequence[str]) -> int:
    """Run `command`; its exit code, or 128 + the signal that ended it, as a shell says it.

    An interrupt or termination is passed on once; where the child does not stop within `GRACE_SECONDS`, or a second
    one comes, it and all its descendants are killed. Whatever the child leaves behind is killed too.
    """
    before = set(_descendants(os.getpid()))
    _adopt_orphans()
    child: subprocess.Popen[bytes] | None = None
    deadline, stopped_by = math.inf, 0

    def forward(number: int, _: FrameType | None) -> None:
        nonlocal deadline, stopped_by
        if stopped_by:
            deadline = 0
            return
        deadline, stopped_by = time.monotonic() + GRACE_SECONDS, number
        if child is not None:
            child.send_signal(number)

    old = {number: signal.signal(number, forward) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        try:
            child = subprocess.Popen(command, start_new_session=True)  # noqa: S603  # an argument list, no shell
        except OSError as error:
            print(f"planc run: cannot start {command[0]}: {error.strerror}", file=sys.stderr)
            return 127
        if stopped_by:
            child.send_signal(stopped_by)  # it came while the child was being started
        while (code := _poll(child)) is None:
            if time.monotonic() > deadline:
                _kill([*_descendants(child.pid), child.pid])
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)
        _kill(pid for pid in _descendants(os.getpid()) if pid not in before)
    if stopped_by and code == TORCHRUN_FAILED:
        return 128 + stopped_by
    return 128 - code if code < 0 else code


def _poll(child: subprocess.Popen[bytes]) -> int | None:
    """The child's exit code; None where it still runs after a moment."""
    try:
        return child.wait(timeout=POLL_SECONDS)
    except subprocess.TimeoutExpired:
        return None


def _adopt_orphans() -> None:
    """Become the parent of what the child leaves behind, where the system can do that: ranks of a killed torchrun."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _descendants(pid: int) -> list[int]:
    """Every process below `pid`, nearest first."""
    listing = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=False).stdout  # noqa: S607  # ps of the system
    children: dict[int, list[int]] = {}
    for line in listing.splitlines():
        child, parent = map(int, line.split())
        children.setdefault(parent, []).append(child)
    found = [pid]
    for known in found:
        found += children.get(known, [])
    return found[1:]


def _kill(victims: Iterable[int]) -> None:
    for victim in victims:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(victim, signal.SIGKILL)
