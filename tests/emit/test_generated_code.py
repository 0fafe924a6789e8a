"""What is generated is code that a careful engineer would commit: linted, formatted, typed, of no machine in particular."""

from __future__ import annotations

import argparse
import ast
import inspect
import os
import re
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from planc import load, lower, pipeline, shape, source
from planc.catalog.lookup import lookup
from planc.diagnostics import Findings
from planc.emit import python
from planc.rules import check as check_rules

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = [ROOT / "generated", *sorted((ROOT / "tests/emit/cases").glob("*/expected"))]
SCRIPTS = sorted(path for folder in FOLDERS for path in folder.rglob("*.py"))
SHELLS = sorted(path for folder in FOLDERS for path in folder.rglob("*.sh"))
FILES = sorted(path for folder in FOLDERS for path in folder.rglob("*") if path.suffix in (".py", ".sh", ".json"))

NEURON = """
version: 1
model: {checkpoint: black-forest-labs/FLUX.2-klein-4B}
shapes: [{height: 1024, width: 1024, text_tokens: 512}]
targets:
"""


def name(path: Path) -> str:
    """A short name of a file for the test's id."""
    return path.relative_to(ROOT).as_posix()


def ruff(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run ruff with its own defaults, whatever the project's configuration says."""
    command = [sys.executable, "-m", "ruff", *map(str, arguments), "--isolated", "--no-cache"]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def emitted(text: str, file_name: str = "plan.yaml") -> dict[str, str]:
    """What a plan's text becomes; the gate, which has tests of its own and takes most of the time, is left out."""
    findings = Findings()
    document = source.parse(file_name, text, findings)
    assert document is not None, list(findings)
    shape.check(document, findings)
    assert not findings.has_errors, list(findings)
    plan = load.load(document, findings)
    assert plan is not None, list(findings)
    lookups = {key: lookup(item.model.checkpoint, item.model.pipeline) for key, item in plan.targets.items()}
    check_rules(plan, lookups, findings)
    assert not findings.has_errors, list(findings)
    with mock.patch.object(python, "gate", lambda _, code: code):
        return {file.path.partition("/")[2]: file.text for file in pipeline.emit(lower.lower(plan, lookups))}


def test_there_is_something_to_check() -> None:
    """The tests below have scripts and shell files to look at, of every device."""
    assert len(SCRIPTS) > 20
    assert len(SHELLS) > 8
    text = "".join(path.read_text() for path in SCRIPTS)
    assert all(f'device = torch.device("{device}"' in text for device in ("cuda", "cpu"))
    assert "torch.neuron.current_device()" in text


def test_generated_code_passes_ruffs_default_rules() -> None:
    """All generated Python passes `ruff check` with ruff's default rules."""
    done = ruff("check", *FOLDERS)
    assert done.returncode == 0, done.stdout


def test_generated_code_is_formatted() -> None:
    """`ruff format` at its default width would change nothing in any generated file."""
    done = ruff("format", "--diff", *FOLDERS)
    assert done.returncode == 0, done.stdout


CHANGING = {
    "checkpoint": "  t: {{device: cuda, mode: eager, model: {{pipeline: Flux2KleinPipeline, checkpoint: {0}}}}}",
    "revision": "  t: {{device: cuda, mode: eager, model: {{revision: {0}}}}}",
    "revision of a parallel target": (
        "  t: {{device: cuda, mode: eager, model: {{revision: {0}}}, tensor_parallel: {{degree: 2, plan: class}}}}"
    ),
    "value of a variable": "  t: {{device: cuda, mode: eager, launch: {{env: {{NAME: {0}}}}}}}",
    "prompt": "  t: {{device: cuda, mode: eager, call: {{prompt: {0}}}}}",
    "backend": "  t: {{device: cuda, mode: compiled, compile: {{backend: {0}}}}}",
    "option": "  t: {{device: cuda, mode: compiled, compile: {{options: {{key: {0}}}}}}}",
    "key of an option": "  t: {{device: cuda, mode: compiled, compile: {{options: {{{0}: 1}}}}}}",
    "target": "  {0}: {{device: cuda, mode: eager}}",
    "parallel target": "  {0}: {{device: cuda, mode: eager, tensor_parallel: {{degree: 2, plan: class}}}}",
    "written-out target": (
        "  {0}: {{device: cuda, mode: eager, tensor_parallel: {{degree: 2, plan: {{x_embedder: colwise}}}}}}"
    ),
    "number": "  t: {{device: cuda, mode: eager, call: {{guidance_scale: {1}}}}}",
    "list": "  t: {{device: cuda, mode: eager, call: {{text_encoder_out_layers: [{1}]}}}}",
    "instance": (
        "  t: {{device: neuron, mode: eager, hardware: {{instance: {0}}}, tensor_parallel: {{degree: 2, plan: class}}}}"
    ),
}


@pytest.mark.parametrize("where", CHANGING)
def test_code_is_formatted_whatever_the_length_of_a_text(where: str, tmp_path: Path) -> None:
    """The layout is ruff's at every length of a plan's text, those included at which a line just fits or just does not."""
    longest = 40 if "target" in where and "revision" not in where else 100
    for length in range(1, longest, 1 if where == "checkpoint" else 2):
        plan = NEURON + CHANGING[where].format("a" * length, "1" * min(length, 15)) + "\n"
        for path, text in emitted(plan).items():
            if path.endswith(".py"):
                (tmp_path / f"{length:03}_{path[:20]}.py").write_text(text)
    done = ruff("format", "--diff", tmp_path)
    changed = re.findall(r"^--- (?:.*/)?(\d+)_", done.stdout, re.MULTILINE)
    assert not changed, f"ruff lays out otherwise at lengths {', '.join(changed)}\n{done.stdout[:1500]}"


def test_code_is_formatted_whatever_the_plans_name(tmp_path: Path) -> None:
    """The layout is ruff's at every length of the plan file's name, which names the default output."""
    for length in range(1, 40, 3):
        for path, text in emitted(NEURON + "  t: {device: cuda, mode: eager}\n", "a" * length + ".yaml").items():
            if path.endswith(".py"):
                (tmp_path / f"{length:03}_{path}").write_text(text)
    done = ruff("format", "--diff", tmp_path)
    assert done.returncode == 0, done.stdout[:1500]


@pytest.mark.parametrize("path", FILES, ids=name)
def test_generated_files_are_of_no_machine(path: Path) -> None:
    """A generated file names no folder, host or time of the machine that wrote it, and needs no planc."""
    text = path.read_text(encoding="utf-8")
    strangers = [str(ROOT), str(Path.home()), sys.prefix, sys.base_prefix, "/tmp/", "site-packages"]
    strangers += [socket.gethostname()] if len(socket.gethostname()) > 5 else []
    assert [stranger for stranger in strangers if stranger in text and stranger != "/"] == []
    assert re.findall(r"\b20\d\d-\d\d-\d\d|\b\d\d:\d\d:\d\d\b", text) == []
    assert re.findall(r"^\s*(?:from|import) planc\b", text, re.MULTILINE) == []
    assert "\r" not in text
    assert text.endswith("\n")
    assert not text.endswith("\n\n")


@pytest.mark.parametrize("path", SCRIPTS, ids=name)
def test_a_generated_script_imports_torch_and_diffusers_only(path: Path) -> None:
    """Beside the standard library a generated file imports what diffusers itself needs, and the device's module."""
    allowed = {
        "torch",
        "diffusers",
        "transformers",
        "numpy",
        "PIL",
        "torch_neuronx",
        "torch_tpu",
    } | sys.stdlib_module_names
    modules = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            modules |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            modules.add((node.module or "").partition(".")[0])
    assert modules <= allowed


@pytest.mark.parametrize("path", SHELLS, ids=name)
def test_a_generated_shell_file_parses(path: Path) -> None:
    """`sh -n` accepts every generated shell file."""
    done = subprocess.run(["sh", "-n", path], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("path", sorted((ROOT / "generated").rglob("*.sh")), ids=name)
def test_a_generated_shell_file_is_executable(path: Path) -> None:
    """A committed shell file may be started by its name, and a script only by Python."""
    assert os.access(path, os.X_OK)
    assert not path.with_suffix(".py").stat().st_mode & 0o111


UNTYPED = re.compile(
    r"torch\.(?:neuron|tpu)\.|torch\._C\b|torch\.accelerator\b|\._tp_plan\b|import torch_(?:neuronx|tpu)\b"
)
"""What a line may touch that no type checker knows."""


def test_type_checks_are_silenced_only_where_nothing_is_typed() -> None:
    """`type: ignore` stands only on lines that touch torch.neuron, torch._C, torch.accelerator, _tp_plan or autoload."""
    rows = [(path, row) for path in SCRIPTS for row in path.read_text().splitlines() if "type: ignore" in row]
    assert rows, "the check would be empty"
    assert [f"{name(path)}: {row.strip()}" for path, row in rows if not UNTYPED.search(row)] == []
    assert [row for _, row in rows if not re.search(r"# type: ignore\[[a-z-]+\]", row)] == [], "of a named error only"


def test_lint_is_silenced_only_for_the_registering_import() -> None:
    """`noqa` stands only on the import that registers a device, and for that one rule."""
    rows = {row.strip() for path in SCRIPTS for row in path.read_text().splitlines() if "noqa" in row}
    assert rows == {
        f"import {module}  # type: ignore[import-not-found]  # noqa: F401" for module in ("torch_neuronx", "torch_tpu")
    }


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_generated_code_passes_mypys_default_rules(tmp_path: Path) -> None:
    """mypy with its default settings finds nothing in any generated file."""
    # One run for all takes a minute or two, one for each much longer; in one run no two modules may share a name.
    for path in SCRIPTS:
        (tmp_path / re.sub(r"\W", "_", name(path).removesuffix(".py"))).with_suffix(".py").write_bytes(
            path.read_bytes()
        )
    copies = sorted(tmp_path.glob("*.py"))
    assert len(copies) == len(SCRIPTS)
    cache = Path(tempfile.gettempdir()) / "planc-mypy-cache"
    command = [sys.executable, "-m", "mypy", "--config-file", os.devnull, "--cache-dir", str(cache)]
    done = subprocess.run([*command, *copies], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


class Fake:
    """Stands in for torch, a module or a pipeline: takes every attribute and call, and notes the calls."""

    def __init__(self, calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]], path: str = "") -> None:
        self._calls, self._path = calls, path

    def __getattr__(self, attribute: str) -> Fake:
        return Fake(self._calls, f"{self._path}.{attribute}".lstrip("."))

    def __call__(self, *args: Any, **kwargs: Any) -> Fake:
        self._calls.append((self._path, args, kwargs))
        return Fake(self._calls, f"{self._path}()")

    def __getitem__(self, key: object) -> Fake:
        return self

    def __enter__(self) -> Fake:
        return self

    def __exit__(self, *_: object) -> None:
        return None


def parts_of(script: str, calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]]) -> dict[str, Any]:
    """The constants and functions of a script, run with fakes in the place of torch and diffusers."""
    tree = ast.parse(script)
    wanted = (ast.Assign, ast.AnnAssign, ast.FunctionDef)
    imported = {
        alias.asname or alias.name.partition(".")[0]
        for node in tree.body
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    scope: dict[str, Any] = {key: Fake(calls, key) for key in imported}
    future = ast.ImportFrom("__future__", [ast.alias("annotations")], 0)
    tree.body = [future, *(node for node in tree.body if isinstance(node, wanted))]
    scope |= {"argparse": argparse, "Path": Path, "sys": sys, "os": os, "Any": Any}
    exec(compile(ast.fix_missing_locations(tree), "script.py", "exec"), scope)
    return scope


def called(function: Callable[..., Any], **known: Any) -> Any:
    """Call a function with those of the known arguments that it takes."""
    return function(**{key: known[key] for key in inspect.signature(function).parameters})


def requests(script: str, args: argparse.Namespace) -> Iterator[tuple[str, dict[str, Any]]]:
    """The calls of the pipeline that a script makes for one prompt, and at last the keywords of its `__call__`."""
    calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []
    scope = parts_of(script, calls)
    pipe = Fake(calls, "pipe")
    keywords = called(scope["request"], pipe=pipe, prompt="a", shape=dict(scope["SHAPES"][0]), args=args)
    yield from ((path, dict(kwargs)) for path, _, kwargs in calls)
    yield "pipe", keywords


ENCODED = NEURON.replace("targets:", "components: {text_encoder: {placement: cpu}}\ntargets:")


@pytest.mark.parametrize("pipeline_name", ["Flux2KleinPipeline", "Flux2Pipeline"])
def test_what_a_plan_says_of_the_encoder_reaches_the_encoder(pipeline_name: str) -> None:
    """A keyword that the pipeline gives to its encoder reaches it where the script encodes first, too."""
    said = f"{{pipeline: {pipeline_name}, checkpoint: ./my}}"
    text = ENCODED.replace("{checkpoint: black-forest-labs/FLUX.2-klein-4B}", said)
    script = emitted(text + "  t: {device: cuda, mode: eager, call: {text_encoder_out_layers: [1, 2, 3]}}\n")["t.py"]
    args = argparse.Namespace(text_encoder_out_layers=(4, 5, 6), dtype="bfloat16", prompt="a")
    encodings = [kwargs for path, kwargs in requests(script, args) if path == "pipe.encode_prompt"]
    assert encodings
    assert [kwargs.get("text_encoder_out_layers") for kwargs in encodings] == [(4, 5, 6)] * len(encodings)
    assert [kwargs.get("max_sequence_length") for kwargs in encodings] == [512] * len(encodings)


def test_only_the_embeddings_travel() -> None:
    """Where the script encodes first, the pipeline's call takes embeddings and no prompt; else the prompt."""
    args = argparse.Namespace(dtype="bfloat16", prompt="a")
    *_, (_, first) = requests(emitted(ENCODED + "  t: {device: cuda, mode: eager}\n")["t.py"], args)
    *_, (_, plain) = requests(emitted(NEURON + "  t: {device: cuda, mode: eager}\n")["t.py"], args)
    assert {"prompt_embeds", "negative_prompt_embeds"} <= set(first)
    assert "prompt" not in first
    assert plain == {"prompt": "a", "height": 1024, "width": 1024, "max_sequence_length": 512}


def test_every_declared_shape_can_be_chosen() -> None:
    """Each declared shape is the one that some options of the script choose, or the plan that declares it is refused."""
    text = NEURON.replace(
        "[{height: 1024, width: 1024, text_tokens: 512}]",
        "[{height: 1024, width: 1024, text_tokens: 512}, {height: 512, width: 1024, text_tokens: 512, batch: 2},"
        " {height: 512, width: 1024, text_tokens: 128}]",
    )
    findings = Findings()
    document = source.parse("plan.yaml", text + "  t: {device: cuda, mode: compiled}\n", findings)
    assert document is not None
    plan = load.load(document, findings)
    assert plan is not None
    check_rules(plan, {key: lookup(item.model.checkpoint, None) for key, item in plan.targets.items()}, findings)
    if findings.has_errors:
        return
    script = emitted(text + "  t: {device: cuda, mode: compiled}\n")["t.py"]
    scope = parts_of(script, [])
    chosen = []
    for declared in scope["SHAPES"]:
        said = {"text_tokens": declared["max_sequence_length"], "batch": declared.get("num_images_per_prompt", 1)}
        chosen.append(scope["chosen_shape"](argparse.Namespace(**declared, **said, allow_new_shape=False)))
    assert chosen == scope["SHAPES"]


def test_another_checkpoint_is_fetched_without_the_plans_revision() -> None:
    """`--checkpoint` of another repository is fetched as it is loaded: without the plan's revision and variant."""
    text = NEURON.replace("FLUX.2-klein-4B}", "FLUX.2-klein-4B, revision: refs/pr/7, variant: fp16}")
    parallel = "  t: {device: cuda, mode: eager, tensor_parallel: {degree: 2, plan: class}}\n"
    calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []
    scope = parts_of(emitted(text + parallel)["t.py"], calls)
    scope["fetch"](scope["CHECKPOINT"])
    scope["fetch"]("my-org/my-finetune")
    fetched = [(args, kwargs) for path, args, kwargs in calls if path == "Flux2KleinPipeline.download"]
    assert fetched == [
        (("black-forest-labs/FLUX.2-klein-4B",), {"revision": "refs/pr/7", "variant": "fp16"}),
        (("my-org/my-finetune",), {}),
    ]
