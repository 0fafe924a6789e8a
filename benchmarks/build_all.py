"""`planc build` of all shipped plans against what it must import, as whole processes.

The budget is three times the imports that a build needs, and 60 ms a target. The two commands alternate, so that a drift
of the machine's speed falls on both; the ratio is taken pair by pair. Run: python -m benchmarks.build_all
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
from pathlib import Path

import yaml

from benchmarks.lint_startup import ROOT, alternate, seconds

IMPORTS = "import yaml, jsonschema, jinja2, libcst"
FACTOR = 3
SECONDS_A_TARGET = 0.06


def targets(folder: Path) -> int:
    """How many targets the plans in a folder have."""
    texts = [path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.yaml"))]
    return sum(len(yaml.safe_load(text)["targets"]) for text in texts)


def main() -> int:
    """Measure and print; fail above the limit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plans", type=Path, default=ROOT / "plans")
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--limit", type=float, default=1.0, help="fail above this ratio of medians")
    args = parser.parse_args()
    planc = shutil.which("planc", path=str(Path(sys.executable).parent))
    if planc is None:
        print("install planc[dev] in this environment first", file=sys.stderr)
        return 2
    count = targets(args.plans)
    with tempfile.TemporaryDirectory() as folder:
        build = [planc, "build", str(args.plans), "--output", folder, "--force"]
        ours, imports = alternate(build, [sys.executable, "-c", IMPORTS], args.runs)
        check = statistics.median(seconds([planc, "build", "--check", *build[2:5]]) for _ in range(3))
    budgets = [FACTOR * each + SECONDS_A_TARGET * count for each in imports]
    ratios = [mine / budget for mine, budget in zip(ours, budgets, strict=True)]
    ratio = statistics.median(ratios)
    print(f"planc build          median {statistics.median(ours):5.2f} s for {count} targets")
    print(f"planc build --check  median {check:5.2f} s")
    print(f"imports alone        median {statistics.median(imports):5.2f} s")
    print(
        f"share of the budget  median {ratio:.2f}  (min {min(ratios):.2f}, max {max(ratios):.2f}, limit {args.limit})"
    )
    return 0 if ratio <= args.limit else 1


if __name__ == "__main__":
    sys.exit(main())
