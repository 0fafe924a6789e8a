"""The command line: an explicit registry of verbs. Only `main` exits."""

from __future__ import annotations

import argparse
import errno
import importlib
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from io import TextIOWrapper
from types import FrameType
from typing import NoReturn

from planc import __version__
from planc.commands import CLEAN, USAGE

VERBS = ("build", "lint", "run", "tiny", "init", "schema", "rules", "explain", "models", "sync")
"""The verbs, each a module of `planc.commands`."""

BUG = 3
"""Exit code of a bug in planc."""
INTERRUPTED = 130
"""Exit code after Ctrl-C: 128 + SIGINT, as shells have it."""

DESCRIPTION = "Compiles declarative model plans for diffusers into scripts that run."
EPILOG = """\
first steps:
  planc init plans/mine.yaml               write a first plan
  planc lint plans                         check plans, at their lines
  planc build plans                        write generated/<plan>/<target>.py and the torchrun commands
  planc run plans/mine.yaml --target cpu --tiny
                                           run one target on a tiny random pipeline, on this machine

exit codes: 0 clean, 1 findings or stale output, 2 wrong usage or unreadable input, 3 a bug in planc"""


def parser(names: Sequence[str] = VERBS) -> argparse.ArgumentParser:
    """The parser of the verbs `names`; a run imports only its own verb, as each import takes time."""
    top = argparse.ArgumentParser(
        prog="planc",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    top.add_argument("--version", action="version", version=f"planc {__version__}")
    verbs = top.add_subparsers(dest="verb", metavar="VERB", required=True)
    for name in names:
        module = importlib.import_module(f"planc.commands.{name}")
        sub = verbs.add_parser(
            name,
            help=module.HELP,
            description=module.DESCRIPTION,
            epilog=getattr(module, "EPILOG", None),
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        module.add_options(sub)
        sub.set_defaults(run=module.run)
    return top


def run(arguments: Sequence[str]) -> int:
    """Run one command line; its exit code."""
    top = parser(arguments[:1] if arguments and arguments[0] in VERBS else VERBS)
    args, passed_on = top.parse_known_args(arguments)
    if passed_on and args.verb != "run":
        top.error(f"{args.verb} has no option {' '.join(passed_on)}")
    args.passed_on = [item for item in passed_on if item != "--"]
    code: int = args.run(args)
    return code


def main() -> NoReturn:
    """Run the process's command line and exit."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper) and not stream.closed:
            # A terminal or file name may not hold what a plan holds: show it escaped, do not fail.
            stream.reconfigure(errors="backslashreplace")
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _stop)
    try:
        code = run(sys.argv[1:])
        if sys.stdout is not None:
            sys.stdout.flush()
    except KeyboardInterrupt:
        print("planc: interrupted", file=sys.stderr)
        code = INTERRUPTED
    except Exception as error:
        code = _exit_code(error)
    sys.exit(code)


def _stop(number: int, _: FrameType | None) -> NoReturn:
    """End as an exception does, so that temporary folders go and children are stopped."""
    sys.exit(128 + number)


def _exit_code(error: Exception) -> int:
    """What an error that no command expects means: a reader that went away, a full disk, or a bug."""
    if isinstance(error, BrokenPipeError):
        # The reader went away, as `| head` does; keep the interpreter from writing to it again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return CLEAN
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EIO):
        print(f"planc: cannot print: {error.strerror}", file=sys.stderr)
        return USAGE
    traceback.print_exception(error)
    print(
        f"planc {__version__}: this is a bug in planc, not in your plan; please report it with the text above",
        file=sys.stderr,
    )
    return BUG
