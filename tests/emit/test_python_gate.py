"""The gate of generated Python: what is not sound code never reaches a file."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from planc import pipeline
from planc.diagnostics import Findings
from planc.emit.python import EmittedCodeError, gate
from planc.ir import Program

GOOD = {
    "empty": "",
    "import": "import os\n\nprint(os.name)\n",
    "dotted": "import torch.distributed as dist\nimport os.path\n\nprint(dist, os.path.sep)\n",
    "from": "from pathlib import Path as P\n\nx: P = P(__file__)\n",
    "builtins": "print(len(__name__), __doc__, sorted([]), ValueError, NotImplemented)\n",
    "scopes": "def f(a, *b, c=1, **d):\n    e = [a for a in b if a]\n    return lambda g: (c, d, e, g, h)\n\n\nh = f\n",
    "later": "def f():\n    return g()\n\n\ndef g():\n    return 1\n",
    "nested use": "import json\n\n\ndef f():\n    def g():\n        return json.dumps(1)\n\n    return g\n",
    "f-string": 'import os\n\nx = 1\nprint(f"{x:{x}} {os.name!r}")\n',
    "walrus": "if (n := 3) > 2:\n    print(n)\n",
    "except": "try:\n    pass\nexcept OSError as error:\n    print(error)\n",
    "registered": "import torch_neuronx  # type: ignore[import-not-found]  # noqa: F401\n",
    "registered in a block": "if 1:\n    import torch_neuronx  # noqa: F401\n",
    "annotation": "from typing import Any\n\nx: dict[str, Any] = {}\n",
}
BAD = {
    "syntax": ("def f(:\n    pass\n", "bad.py"),
    "a string that is not closed": ('x = "a\n', "bad.py"),
    "indentation": ("if 1:\nx = 1\n", "bad.py"),
    "undefined": ("print(nothing)\n", "undefined name 'nothing'"),
    "undefined in a function": ("def f():\n    return nothing\n", "undefined name 'nothing'"),
    "undefined in an f-string": ('print(f"{nothing}")\n', "undefined name 'nothing'"),
    "undefined in a default": ("def f(a=nothing):\n    return a\n", "undefined name 'nothing'"),
    "undefined annotation": ("x: Nothing = 1\n", "undefined name 'Nothing'"),
    "undefined module": ("print(os.name)\n", "undefined name 'os'"),
    "local of another function": ("def f():\n    a = 1\n    return a\n\n\nprint(a)\n", "undefined name 'a'"),
    "unused": ("import os\n", "unused import 'os'"),
    "unused from": ("from pathlib import Path\n", "unused import 'Path'"),
    "unused alias": ("import numpy as np\nnumpy = 1\nprint(numpy)\n", "unused import"),
    "unused beside a used one": ("from typing import Any, NoReturn\n\nx: Any = 1\n", "unused import 'NoReturn'"),
    "unused in a function": ("def f():\n    import os\n", "unused import 'os'"),
    "another import is registered": (
        "import os\nimport torch_neuronx  # noqa: F401\n",
        "unused import 'os'",
    ),
    "the marker stands elsewhere": ("import os\n\nx = 1  # noqa: F401\n", "unused import 'os'"),
    "the marker is of a longer name": (
        "import torch\nimport torch_neuronx  # noqa: F401\n",
        "unused import 'torch'",
    ),
    "the marker is in a string": (
        'import os\n\nx = """\nimport os  # noqa: F401\n"""\n',
        "unused import 'os'",
    ),
}
PLAN = """
version: 1
model: {checkpoint: black-forest-labs/FLUX.2-klein-4B}
call: {prompt: a lighthouse}
shapes: [{height: 1024, width: 1024, text_tokens: 512}]
components: {text_encoder: {placement: cpu}}
targets:
  tp:
    device: cpu
    mode: compiled
    tensor_parallel:
      degree: 2
      plan: {"transformer_blocks.*.ff.linear_in": {style: packed_colwise, blocks: [1, 1]}, "transformer_blocks.*.ff.linear_out": rowwise}
"""


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A real generated script: parallel, compiled, with a written-out plan."""
    path = tmp_path_factory.mktemp("gate") / "plan.yaml"
    path.write_text(PLAN)
    checked = pipeline.check(str(path), {}, Findings())
    assert checked is not None
    return next(file.text for file in pipeline.emit(pipeline.resolve(checked)) if file.path == "plan/tp.py")


@pytest.mark.parametrize("text", GOOD.values(), ids=GOOD)
def test_sound_code_passes_unchanged(text: str) -> None:
    """Code that parses, defines what it uses and uses what it imports comes back as it was."""
    assert gate("good.py", text) == text


@pytest.mark.parametrize(("text", "message"), BAD.values(), ids=BAD)
def test_broken_code_is_refused(text: str, message: str) -> None:
    """Code that does not parse, uses an undefined name or imports in vain is refused, with the file and the name."""
    with pytest.raises(EmittedCodeError, match=re.escape(message)) as caught:
        gate("bad.py", text)
    assert str(caught.value).startswith("bad.py: ")


def test_all_faults_are_told_at_once() -> None:
    """Several faults of one module are told together, sorted."""
    with pytest.raises(EmittedCodeError) as caught:
        gate("bad.py", "import os\nprint(b, a)\n")
    assert str(caught.value) == "bad.py: undefined name 'a', undefined name 'b', unused import 'os'"


def _refusal(text: str) -> str:
    with pytest.raises(EmittedCodeError) as caught:
        gate("tp.py", text)
    return str(caught.value)


def test_every_import_of_a_script_is_missed(script: str) -> None:
    """Each import of a real script is needed: without them the gate names every one of their names."""
    tree = ast.parse(script)
    imports = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    names = {(alias.asname or alias.name) for node in imports for alias in node.names}
    assert len(names) > 20
    lost = {number for node in imports for number in range(node.lineno, (node.end_lineno or 0) + 1)}
    lines = script.splitlines(keepends=True)
    refusal = _refusal("".join(line for number, line in enumerate(lines, 1) if number not in lost))
    assert set(re.findall(r"undefined name '(\w+)'", refusal)) == names


def test_one_lost_import_is_enough(script: str) -> None:
    """A real script that lacks a single import is refused."""
    assert _refusal(script.replace("import torch\n", "", 1)) == "tp.py: undefined name 'torch'"


def test_every_renamed_use_is_refused(script: str) -> None:
    """Misspelling a use of a name in a real script is refused, for every name that it uses."""
    tree = ast.parse(script)
    hidden = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in ast.walk(node)}
    uses = {
        node.id: node
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and id(node) not in hidden
    }
    assert len(uses) > 40
    lines = script.splitlines(keepends=True)
    for node in sorted(uses.values(), key=lambda node: (node.lineno, -node.col_offset)):
        line = lines[node.lineno - 1]
        assert line[node.col_offset :].startswith(node.id)
        lines[node.lineno - 1] = f"{line[: node.col_offset]}misspelt_{line[node.col_offset :]}"
    assert set(re.findall(r"undefined name 'misspelt_(\w+)'", _refusal("".join(lines)))) == set(uses)


def test_a_script_with_an_import_in_vain_is_refused(script: str) -> None:
    """One more import in a real script is refused."""
    with pytest.raises(EmittedCodeError, match="unused import 'json'"):
        gate("tp.py", script.replace("import sys\n", "import json\nimport sys\n", 1))


def test_the_gate_runs_on_what_is_emitted(
    resolve: Callable[..., Program], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A template that writes unsound code stops the emission: nothing that the gate refuses is ever returned."""
    from planc.emit import files
    from planc.emit.render import render

    program = resolve(PLAN)
    monkeypatch.setattr(files, "render", lambda *args: render(*args).replace("import sys\n", ""))
    with pytest.raises(EmittedCodeError, match=r"^plan/tp\.py: undefined name 'sys'$"):
        pipeline.emit(program)
    assert list(tmp_path.iterdir()) == [tmp_path / "plan.yaml"]
