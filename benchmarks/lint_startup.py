"""`planc lint` of one plan against check-jsonschema on the same file and schema, as whole processes.

check-jsonschema validates the shape only; planc lint also runs its rules. The two commands alternate, so that a
drift of the machine's speed falls on both; the ratio is taken pair by pair. Run: python benchmarks/lint_startup.py
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def seconds(command: Sequence[str]) -> float:
    """Wall time of one run of `command`, which must succeed."""
    start = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True, cwd=ROOT)
    return time.perf_counter() - start


def alternate(first: Sequence[str], second: Sequence[str], runs: int) -> tuple[list[float], list[float]]:
    """Wall times of the two commands, run in turn after one run of each that is not counted."""
    seconds(first), seconds(second)
    pairs = [(seconds(first), seconds(second)) for _ in range(runs)]
    return [pair[0] for pair in pairs], [pair[1] for pair in pairs]


def main() -> int:
    """Measure and print; fail above the limit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plan", default="plans/flux2.yaml")
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--limit", type=float, default=0.8, help="fail above this ratio of medians")
    args = parser.parse_args()
    folder = str(Path(sys.executable).parent)
    planc, peer = shutil.which("planc", path=folder), shutil.which("check-jsonschema", path=folder)
    if planc is None or peer is None:
        print("install planc[dev] in this environment first", file=sys.stderr)
        return 2
    ours, theirs = alternate(
        [planc, "lint", args.plan], [peer, "--schemafile", "schemas/plan.schema.json", args.plan], args.runs
    )
    ratios = [mine / other for mine, other in zip(ours, theirs, strict=True)]
    ratio = statistics.median(ratios)
    print(f"planc lint        median {statistics.median(ours) * 1000:6.0f} ms")
    print(f"check-jsonschema  median {statistics.median(theirs) * 1000:6.0f} ms")
    print(f"ratio             median {ratio:.2f}  (min {min(ratios):.2f}, max {max(ratios):.2f}, limit {args.limit})")
    return 0 if ratio <= args.limit else 1


if __name__ == "__main__":
    sys.exit(main())
