"""`planc run`: build, then start the script of one target, or torchrun for its ranks."""

from __future__ import annotations

import argparse
import importlib.util
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from planc import pipeline
from planc.commands import FINDINGS, USAGE
from planc.commands.build import write_programs
from planc.commands.child import run_child
from planc.commands.plans import add_plan, is_unreadable, show
from planc.commands.tiny import save_tiny, script_options
from planc.diagnostics import Findings
from planc.shape import suggest

if TYPE_CHECKING:
    from planc.ir import TargetProgram

HELP = "build, then start one target"
DESCRIPTION = """\
Builds the plan and starts the script of one target: with python, or with torchrun where the target has ranks.
Options that planc does not know are passed on to the script. With --tiny the script runs on a tiny random pipeline
of the same architecture, at a small size: a smoke test that needs no weights. Exit code: the script's."""
EPILOG = """\
examples:
  planc run plans/flux2.yaml --target tp8 --prompt "a lighthouse at dusk"
  planc run plans/flux2.yaml --target cpu --tiny --output tiny.png"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the verb's options."""
    add_plan(parser)
    parser.add_argument("--target", required=True, metavar="NAME", help="the target to start")
    parser.add_argument("--tiny", action="store_true", help="on a tiny random pipeline instead of the checkpoint")
    parser.add_argument(
        "--build-dir",
        type=Path,
        default=Path("generated"),
        metavar="DIR",
        help="output folder of the build (default: generated)",
    )
    parser.add_argument("--force", action="store_true", help="write over files that were edited by hand")


def run(args: argparse.Namespace) -> int:
    """Build and start."""
    if importlib.util.find_spec("torch") is None:
        print("planc run: torch is not installed: pip install 'planc[verify]'", file=sys.stderr)
        return USAGE
    findings, texts = Findings(), dict[str, str]()
    checked = pipeline.check(args.plan, texts, findings)
    show(findings, texts)
    if checked is None:
        return USAGE if is_unreadable(findings) else FINDINGS
    program = pipeline.resolve(checked)
    target = next((item for item in program.targets if item.name == args.target), None)
    if target is None:
        names = [item.name for item in program.targets]
        near = suggest(args.target, names)
        hint = f"did you mean {near!r}?" if near else f"targets: {', '.join(names)}"
        print(f"planc run: there is no target {args.target!r}; {hint}", file=sys.stderr)
        return USAGE
    if code := write_programs([program], args.build_dir, is_forced=args.force):
        return code
    script = args.build_dir / program.folder / f"{target.module}.py"
    if not args.tiny:
        return run_child([*_launcher(target), str(script), *args.passed_on])
    with tempfile.TemporaryDirectory(prefix="planc-tiny-") as folder:
        made = save_tiny(checked.lookups[target.name], Path(folder))
        if made is None:
            return USAGE
        options = script_options(made)
        if target.is_static:
            options.append("--allow-new-shape")
        print(
            f"running {script} on a tiny pipeline of {made.parameters:,} random parameters", file=sys.stderr, flush=True
        )
        code = run_child([*_launcher(target), str(script), *options, *args.passed_on])
    if code == 0:
        print(
            "the weights were random: what was made shows that the script runs, and means nothing else", file=sys.stderr
        )
    return code


def _launcher(target: TargetProgram) -> list[str]:
    if not target.is_parallel:
        return [sys.executable]
    return [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        f"--nproc_per_node={target.launch.world_size}",
    ]
