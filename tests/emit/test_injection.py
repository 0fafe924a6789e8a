"""Text of a plan is data in what planc writes: never code, never shell, never a path."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from planc import load, lower, pipeline, shape, source
from planc.catalog.lookup import lookup
from planc.diagnostics import Diagnostic, Findings
from planc.emit import python
from planc.emit.files import GeneratedFile
from planc.rules import check as check_rules

Check = Callable[..., list[Diagnostic]]

TRAPS = (
    'x"); import os; os.system("touch pwned"); ("',
    "x'); import os; os.system('touch pwned'); ('",
    '"""\nimport os\nos.system("touch pwned")\n"""',
    "'''\n__import__('os').system('touch pwned')\n'''",
    "a\nimport os; os.system('touch pwned')\n",
    "\\",
    '\\"\n',
    "{x} {{ ''.__class__ }} {% raw %} {% endraw %} {# #} {",
    "$(touch pwned) `touch pwned` ${IFS} ; touch pwned & | > pwned",
    "# noqa # type: ignore",
    "a\u2028b\u2029c\x85d\x0be\x0cf\rg\r\nh",
    "\ufeff\u202e\u200b\x1b]0;pwned\x07",
    "%(prog)s %s %d {0}",
    "-rf --output=pwned",
    "../../pwned",
    " ",
    "漢字 é 🦮",
    "\U0001f9ae\U000e0001\U0010ffff",
    "N\u0303 \N{ZERO WIDTH JOINER}",
)
"""Text that would do harm, or be lost, if it were pasted into Python, Jinja, shell or a path."""

PLAN = """
version: 1
model: {{pipeline: Flux2KleinPipeline, checkpoint: {checkpoint}, revision: {revision}, variant: {variant}}}
call: {{prompt: {prompt}}}
shapes: [{{height: 1024, width: 1024, text_tokens: 512}}]
targets:
  tp:
    device: cuda
    mode: compiled
    cache_dir: {cache_dir}
    compile: {{backend: {backend}, mode: {mode}}}
    components: {{vae: {{compile: {{backend: {backend}, options: {{{key}: {option}}}}}}}}}
    tensor_parallel: {{degree: 2, plan: class}}
    launch: {{env: {{FIRST: {env}, SECOND: {env}}}}}
"""
FIELDS = ("checkpoint", "revision", "variant", "prompt", "cache_dir", "backend", "mode", "key", "option", "env")
SHELL = """\
#!/bin/sh
# Starts the target `tp` of plan.yaml: 2 ranks, one GPU each.
# Written by planc; options are passed on:  sh tp.sh --prompt "a lighthouse at dusk"
set -eu
exec torchrun --standalone --nproc_per_node=2 "$(dirname -- "$0")/tp.py" "$@"
"""


def quoted(text: str) -> str:
    """A YAML scalar that means exactly `text`."""
    return '"' + "".join(char if char.isascii() and char.isalnum() else f"\\U{ord(char):08x}" for char in text) + '"'


def emitted(text: str) -> dict[str, GeneratedFile]:
    """What a plan's text becomes; the gate only parses here, as it has tests of its own and takes most of the time."""
    findings = Findings()
    document = source.parse("plan.yaml", text, findings)
    assert document is not None, list(findings)
    shape.check(document, findings)
    assert not findings.has_errors, list(findings)
    plan = load.load(document, findings)
    assert plan is not None, list(findings)
    lookups = {name: lookup(item.model.checkpoint, item.model.pipeline) for name, item in plan.targets.items()}
    check_rules(plan, lookups, findings)
    assert not findings.has_errors, list(findings)
    with mock.patch.object(python, "gate", _parses):
        return {file.path: file for file in pipeline.emit(lower.lower(plan, lookups))}


def _parses(path: str, text: str) -> str:
    ast.parse(text, path)
    return text


def calls(tree: ast.AST, name: str) -> Iterator[ast.Call]:
    """Every call of what is written `name`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == name:
            yield node


def keywords(call: ast.Call) -> dict[str, Any]:
    """The literal keyword arguments of a call."""
    found = {}
    for item in call.keywords:
        if item.arg is not None and isinstance(item.value, ast.Constant | ast.Dict | ast.List | ast.Tuple):
            found[item.arg] = ast.literal_eval(item.value)
    return found


def constants(tree: ast.Module) -> dict[str, Any]:
    """The literals that the module's top level gives names."""
    found = {}
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            (target,) = node.targets if isinstance(node, ast.Assign) else [node.target]
            assert isinstance(target, ast.Name)
            assert node.value is not None
            found[target.id] = ast.literal_eval(node.value)
    return found


def said(script: str) -> dict[str, Any]:
    """Where each field of a plan arrived in its script, as values."""
    tree = ast.parse(script)
    found = constants(tree)
    (compiled,) = calls(tree, "pipe.transformer.compile")
    (decode,) = calls(tree, "torch.compile")
    (prompt,) = (call for call in calls(tree, "prompts.add_argument") if call.args[0].value == "--prompt")  # type: ignore[attr-defined]
    (download,) = calls(tree, "Flux2KleinPipeline.download")
    env = dict(ast.literal_eval(ast.Tuple(call.args, ast.Load())) for call in calls(tree, "os.environ.setdefault"))
    return {
        "checkpoint": found["CHECKPOINT"],
        "source": found["SOURCE"],
        "prompt": keywords(prompt)["default"],
        "env": env,
        "compile": keywords(compiled),
        "decode": keywords(decode),
        "download": keywords(download),
    }


def skeleton(script: str) -> str:
    """The script's code with every literal text emptied: what is left must not depend on the plan's texts."""
    tree = ast.parse(script)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            node.value = ""
    return ast.dump(tree)


PLAIN = dict.fromkeys(FIELDS, "plain")
HARMLESS = emitted(PLAN.format(**{key: quoted(value) for key, value in PLAIN.items()}))
SKELETON = skeleton(HARMLESS["plan/tp.py"].text)


def _holds(texts: Mapping[str, str]) -> dict[str, GeneratedFile]:
    made = emitted(PLAN.format(**{key: quoted(value) for key, value in texts.items()}))
    assert sorted(made) == ["plan/manifest.json", "plan/tp.py", "plan/tp.sh", "plan/tp_plan.py"]
    found = said(made["plan/tp.py"].text)
    assert found["checkpoint"] == texts["checkpoint"]
    assert found["source"] == {"revision": texts["revision"], "variant": texts["variant"]}
    assert found["prompt"] == texts["prompt"]
    assert found["env"] == {
        "FIRST": texts["env"],
        "SECOND": texts["env"],
        "TORCHINDUCTOR_CACHE_DIR": texts["cache_dir"],
    }
    static = {"backend": texts["backend"], "fullgraph": True, "dynamic": False}
    assert found["compile"] == {**static, "mode": texts["mode"]}
    assert found["decode"] == {**static, "options": {texts["key"]: texts["option"]}}
    assert skeleton(made["plan/tp.py"].text) == SKELETON, "a text of the plan became code"
    assert made["plan/tp.sh"].text == SHELL
    assert made["plan/tp_plan.py"].text == HARMLESS["plan/tp_plan.py"].text
    return made


YAML_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
"""Any text that YAML can hold."""
NOT_EMPTY = YAML_TEXT.filter(bool)
NO_NUL = YAML_TEXT.filter(lambda text: "\0" not in text)


@settings(max_examples=60, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(
    texts=st.fixed_dictionaries(
        {
            "checkpoint": NOT_EMPTY | st.sampled_from(TRAPS),
            "revision": YAML_TEXT | st.sampled_from(TRAPS),
            "variant": YAML_TEXT | st.sampled_from(TRAPS),
            "prompt": YAML_TEXT | st.sampled_from(TRAPS),
            "cache_dir": NOT_EMPTY.filter(lambda text: "\0" not in text) | st.sampled_from(TRAPS),
            "backend": NOT_EMPTY | st.sampled_from(TRAPS),
            "mode": YAML_TEXT | st.sampled_from(TRAPS),
            "key": YAML_TEXT | st.sampled_from(TRAPS),
            "option": YAML_TEXT | st.sampled_from(TRAPS),
            "env": NO_NUL | st.sampled_from(TRAPS),
        }
    )
)
@example(texts=dict(zip(FIELDS, TRAPS, strict=False)))
@example(texts=dict(zip(FIELDS, reversed(TRAPS), strict=False)))
def test_every_text_of_a_plan_arrives_as_that_text(texts: dict[str, str]) -> None:
    """Any texts in a plan's free fields arrive in the script as exactly those texts, and change nothing of its code."""
    _holds(texts)


@pytest.mark.parametrize("field", ["revision", "variant", "prompt", "backend", "mode", "option", "env"])
def test_an_empty_text_is_not_a_default(field: str, check: Check) -> None:
    """An empty text arrives as an empty text, or is refused as no value at all; it is never taken for the default."""
    text = PLAN.format(**{key: quoted(value) for key, value in (PLAIN | {field: ""}).items()})
    if any(item.severity.value == "error" for item in check(text)):
        return
    _holds(PLAIN | {field: ""})


@pytest.mark.parametrize("field", ["cache_dir", "env"])
def test_a_variable_cannot_hold_nul(field: str, check: Check) -> None:
    """A NUL in the value of an environment variable, which would end the script at its first line, is refused."""
    text = PLAN.format(**{key: quoted(value) for key, value in (PLAIN | {field: "a\0b"}).items()})
    assert any(item.severity.value == "error" for item in check(text))


@pytest.mark.parametrize("trap", TRAPS)
def test_a_trap_in_every_field_does_nothing(trap: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same harmful text in every field at once is inert: the constants run, the shell file starts, nothing appears."""
    monkeypatch.chdir(tmp_path)
    made = _holds(dict.fromkeys(FIELDS, trap))
    script = ast.parse(made["plan/tp.py"].text)
    script.body = [node for node in script.body if isinstance(node, ast.Assign | ast.AnnAssign)]
    scope: dict[str, Any] = {"Any": Any}
    exec(compile(script, "tp.py", "exec"), scope)
    assert scope["CHECKPOINT"] == trap
    for path, file in made.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(file.text, encoding="utf-8")
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "torchrun").write_text("#!/bin/sh\nprintf '%s\\n' \"$@\"\n")
    (tools / "torchrun").chmod(0o755)
    ran = subprocess.run(
        ["sh", "plan/tp.sh", "--prompt", trap],
        env={"PATH": f"{tools}:{os.environ['PATH']}"},
        capture_output=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.decode() == f"--standalone\n--nproc_per_node=2\nplan/tp.py\n--prompt\n{trap}\n"
    assert not list(tmp_path.rglob("pwned*"))
    assert {path.name for path in tmp_path.iterdir()} == {"plan", "tools"}


@pytest.mark.parametrize("folder", ["a b", "$(touch pwned)", '"; touch pwned; "', "-rf", "`touch pwned`", "a\nb", "*"])
def test_a_shell_file_runs_wherever_it_lies(folder: str, tmp_path: Path) -> None:
    """A shell file finds its script beside it, whatever its folder is called and from wherever it is started."""
    here = tmp_path / folder
    here.mkdir()
    (here / "tp.sh").write_text(SHELL)
    (here / "tp.sh").chmod(0o755)
    (here / "torchrun").write_text('#!/bin/sh\nprintf "%s" "$3"\n')
    (here / "torchrun").chmod(0o755)
    for command, cwd, expected in (
        ([str(here / "tp.sh")], tmp_path, str(here / "tp.py")),
        (["sh", "./tp.sh"], here, "./tp.py"),
    ):
        ran = subprocess.run(
            command, cwd=cwd, env={"PATH": f"{here}:{os.environ['PATH']}"}, capture_output=True, text=True, check=False
        )
        assert (ran.stdout, ran.stderr) == (expected, "")
    assert not list(tmp_path.rglob("pwned"))


@pytest.mark.parametrize("trap", [*TRAPS, "", "trn2.48xlarge\n", "a/b", ".", "-"])
def test_an_instance_is_a_plain_name(trap: str, check: Check) -> None:
    """An instance type, which stands in the script's docstring, is a plain name or the plan is refused."""
    text = PLAN.format(**{key: quoted(value) for key, value in PLAIN.items()})
    found = check(text.replace("    mode: compiled", f"    mode: compiled\n    hardware: {{instance: {quoted(trap)}}}"))
    assert "P104" in {item.code for item in found}, found


@pytest.mark.parametrize("trap", [*TRAPS, "", "A-B", "1A", "A=B", "A\n", "Ä"])
def test_the_name_of_a_variable_is_a_plain_name(trap: str, check: Check) -> None:
    """The name of an environment variable is one, or the plan is refused."""
    text = PLAN.format(**{key: quoted(value) for key, value in PLAIN.items()})
    found = check(text.replace("FIRST", quoted(trap)))
    assert {item.code for item in found if item.severity.value == "error"} == {"P701"}, found


@pytest.mark.parametrize("field", ["prompt", "checkpoint", "env"])
def test_a_lone_surrogate_is_no_text(field: str, check: Check) -> None:
    """Half a surrogate pair, which no file can hold, is refused at its place; it never reaches a script."""
    text = PLAN.format(**{key: quoted(value) for key, value in PLAIN.items()} | {field: '"\\ud800"'})
    assert {item.code for item in check(text)} & {"P002", "P007"}


LEAVING = ["..", ".", "", "../x", "a/b", "/etc/x", "a\\b", "a\0b", "A", "a_b", "a b", "a.py", "-a", "é", "a\n", "\na"]
LEAVING += ["a\u2028", "a\nb", "~", "*", "con.py", "$(touch pwned)", *TRAPS]


@pytest.mark.parametrize("name", LEAVING)
def test_a_target_cannot_leave_its_folder(name: str, check: Check) -> None:
    """A target's name that is not small letters, digits and dashes is refused: it becomes a file's name."""
    text = PLAN.format(**{key: quoted(value) for key, value in PLAIN.items()})
    found = check(text.replace("  tp:\n", f"  {quoted(name)}:\n"))
    assert "P106" in {item.code for item in found}, found


@pytest.mark.parametrize(
    "name",
    [
        *("A.yaml", "a_b.yaml", "a b.yaml", "-a.yaml", ".yaml", "a.b.yaml", "é.yaml", "a\n.yaml", "a\u2028.yaml"),
        *('a".yaml', "$(touch pwned).yaml", "a`.yaml"),
        # The name stands in docstrings and in a comment of the shell file, its ending too.
        'a.y"""; print("pwned"); """',
        "a.yaml\ntouch pwned",
        "a.\\",
    ],
)
def test_a_plan_cannot_be_called_what_no_folder_can(name: str, tmp_path: Path, check: Check) -> None:
    """A plan file's name that is not small letters, digits and dashes and a plain ending is refused."""
    found = check(PLAN.format(**{key: quoted(value) for key, value in PLAIN.items()}), name)
    assert "P106" in {item.code for item in found}, found
    assert [path.name for path in tmp_path.iterdir()] == [name]


OURS = ["tp-plan", "cp-plan", "manifest"]
IMPORTED = ["torch", "diffusers", "transformers", "numpy", "pil", "safetensors", "accelerate", "huggingface-hub"]
IMPORTED += ["torch-neuronx", "torch-xla", "planc", "requests", "yaml", "tqdm", "typing-extensions"]
STDLIB = ["json", "os", "sys", "typing", "time", "statistics", "pathlib", "argparse", "resource", "code", "abc"]


@pytest.mark.parametrize("name", [*OURS, *IMPORTED, *STDLIB])
def test_a_target_cannot_shadow_a_module(name: str, check: Check) -> None:
    """A target whose script would be taken for a module, or for another file of planc's, is refused."""
    text = PLAN.format(**{key: quoted(value) for key, value in PLAIN.items()})
    found = check(text.replace("  tp:\n", f"  {name}:\n"))
    assert "P109" in {item.code for item in found}, found


@pytest.mark.slow
def test_what_a_script_imports_cannot_be_shadowed(root: Path) -> None:
    """Every module that the imports of a generated script load, directly or not, is a name that targets cannot have."""
    imports = [
        ast.unparse(node)
        for path in (root / "generated").rglob("cpu.py")
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    assert any("diffusers" in line for line in imports)
    lines = ["import sys", *dict.fromkeys(imports)]
    lines.append("print(*(name for name, module in sys.modules.items() if getattr(module, '__file__', None)))")
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=True)
    names = {name.partition(".")[0] for name in done.stdout.split()}
    can_be_targets = {name for name in names if re.fullmatch(r"[a-z0-9][a-z0-9_]*", name)}
    free = sorted(can_be_targets - load.IMPORTED - load.OUR_FILES - sys.stdlib_module_names)
    assert not free, f"planc.load.IMPORTED lacks {' '.join(free)}"


def test_the_shell_is_there() -> None:
    """The tests above had a shell to run."""
    assert shutil.which("sh")
