"""`planc lint` of a folder of distinct plans against check-jsonschema on the same files, as whole processes.

The plans are the shipped ones with other numbers, texts, names and degrees, each clean and no two alike.
check-jsonschema validates the shape only; planc lint also runs its rules. The two commands alternate, so that a drift of
the machine's speed falls on both; the ratio is taken pair by pair. Run: python -m benchmarks.lint_many
"""

from __future__ import annotations

import argparse
import re
import shutil
import statistics
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.lint_startup import ROOT, alternate

BASES = ("flux2", "flux2-dev")
SIZES = tuple(range(512, 2049, 64))
SUBJECTS = ("a golden retriever", "a red fox", "an old lighthouse", "two herons", "a paper boat", "a night market")
SCENES = ("surfing a wave", "in the snow", "at dusk", "seen from above", "in a storm", "behind rain on glass")
STYLES = ("photorealistic", "as an oil painting", "as a woodcut", "in pastel colours", "on grainy film")


def plan(text: str, number: int) -> str:
    """The plan `text`, changed in many places as `number` says; it stays a plan without a finding."""
    prompt = f"{SUBJECTS[number % 6]} {SCENES[number // 6 % 6]}, {STYLES[number // 36 % 5]}"
    height, width = SIZES[number % len(SIZES)], SIZES[number // 7 % len(SIZES)]
    gpus, ranks = (2, 4, 8)[number % 3], (2, 4)[number // 3 % 2]
    changes = {
        r"prompt: .*": f"prompt: {prompt}",
        r"num_inference_steps: .*": f"num_inference_steps: {4 + number % 47}",
        r"guidance_scale: .*": f"guidance_scale: {1 + number % 70 / 10}",
        r"(?m)^seed: .*": f"seed: {number}",
        r"height: 1024, width: 1024, text_tokens: 512": f"height: {height}, width: {width}, text_tokens: 512",
        r"/var/lib/neff": f"/var/lib/neff/team-{number % 13}/{number}",
        r"(?m)^  cuda-tp4:\n((?:    .*\n)*?)(    tensor_parallel: \{degree: )4": f"  cuda-tp{gpus}:\n\\g<1>\\g<2>{gpus}",
        r"(?m)^  cpu:\n((?:    .*\n)*?)(    tensor_parallel: \{degree: )2": f"  cpu-{number}:\n\\g<1>\\g<2>{ranks}",
    }
    for old, new in changes.items():
        text = re.sub(old, new, text)
    return text


def plans(count: int) -> Iterator[tuple[str, str]]:
    """File names and texts of `count` plans, no two alike."""
    bases = [(name, (ROOT / f"plans/{name}.yaml").read_text(encoding="utf-8")) for name in BASES]
    for number in range(count):
        name, text = bases[number % len(bases)]
        yield f"{name}-{number}.yaml", plan(text, number)


def write(folder: Path, count: int) -> list[str]:
    """Write `count` plans; their paths."""
    made = dict(plans(count))
    assert len(set(made.values())) == count
    for name, text in made.items():
        (folder / name).write_text(text, encoding="utf-8")
    return [str(folder / name) for name in made]


def main() -> int:
    """Measure and print; fail above the limit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plans", type=int, default=1000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--limit", type=float, default=1.0, help="fail above this ratio of medians")
    args = parser.parse_args()
    beside = str(Path(sys.executable).parent)
    planc, peer = shutil.which("planc", path=beside), shutil.which("check-jsonschema", path=beside)
    if planc is None or peer is None:
        print("install planc[dev] in this environment first", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        paths = write(Path(folder), args.plans)
        theirs_command = [peer, "--schemafile", "schemas/plan.schema.json", *paths]
        ours, theirs = alternate([planc, "lint", folder], theirs_command, args.runs)
    ratios = [mine / other for mine, other in zip(ours, theirs, strict=True)]
    ratio = statistics.median(ratios)
    print(f"planc lint        median {statistics.median(ours):6.2f} s for {args.plans} plans")
    print(f"check-jsonschema  median {statistics.median(theirs):6.2f} s")
    print(f"ratio             median {ratio:.2f}  (min {min(ratios):.2f}, max {max(ratios):.2f}, limit {args.limit})")
    return 0 if ratio <= args.limit else 1


if __name__ == "__main__":
    sys.exit(main())
