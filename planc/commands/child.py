"""Runs a child process to its end: its exit code is honoured, signals reach it, and nothing outlives it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from types import FrameType

GRACE_SECONDS = 35
"""torchrun gives its ranks 30 seconds to stop before it kills them (torch 2.13, --shutdown default)."""


def run_child(command: Sequence[str]) -> int:
    """Run `command`; its exit code, or 128 + the signal that ended it, as a shell says it.

    An interrupt or termination is passed on once; where the child does not stop within `GRACE_SECONDS`, or a second
    interrupt comes, it and all its descendants are killed.
    """
    try:
        child = subprocess.Popen(command, start_new_session=True)  # noqa: S603  # an argument list, no shell
    except OSError as error:
        print(f"planc run: cannot start {command[0]}: {error.strerror}", file=sys.stderr)
        return 127
    stopping = False

    def forward(number: int, _: FrameType | None) -> None:
        nonlocal stopping
        if stopping:
            _kill_tree(child.pid)
        stopping = True
        child.send_signal(number)

    caught = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    old = {number: signal.signal(number, forward) for number in caught}
    try:
        while True:
            try:
                code = child.wait(timeout=GRACE_SECONDS if stopping else 0.5)
                break
            except subprocess.TimeoutExpired:
                if stopping:
                    _kill_tree(child.pid)
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)
        _kill_session(child.pid)
    return 128 - code if code < 0 else code


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


def _kill_tree(pid: int) -> None:
    for victim in (*_descendants(pid), pid):
        _kill(victim)


def _kill_session(pid: int) -> None:
    """End what is left in the child's own process group."""
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return
