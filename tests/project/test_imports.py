"""The import rule: a module imports only from strictly lower layers or from its own package."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

RANKS = {
    **dict.fromkeys(("resources", "diagnostics"), 0),
    **dict.fromkeys(("located", "faults"), 1),
    **dict.fromkeys(("spec", "ir", "catalog"), 2),
    **dict.fromkeys(("source", "schema", "conformity"), 3),
    "shape": 4,
    "load": 5,
    "rules": 6,
    "lower": 7,
    **dict.fromkeys(("emit", "verify", "report"), 8),
    "pipeline": 9,
    "commands": 10,
    "cli": 11,
    "__main__": 12,
}
"""The rank of each module and package directly below planc."""
FORBIDDEN = {
    "ir": {"spec"},
    "emit": {"spec", "load", "rules", "source", "shape", "verify"},
    "verify": {"spec", "load", "rules", "source", "shape", "emit"},
}
"""What a room never imports, whatever the ranks say."""
EXCEPTIONS: dict[tuple[str, str], str] = {}
"""(importing module, imported room) → why this one upward import is right."""
HEAVY = {"torch", "diffusers", "transformers", "tokenizers", "accelerate", "safetensors"}
"""Packages that only `planc/verify` imports, and only inside functions."""
ADAPTER = "verify/diffusers_api.py"
"""The only module that touches private names of diffusers and torch."""


def imports(tree: ast.Module) -> Iterator[tuple[str, int, bool]]:
    """Each imported module or member by its whole name, its line, and whether it stands inside a function."""
    inside = {
        id(node)
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for node in ast.walk(function)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno, id(node) in inside) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: a relative import"
            yield from ((f"{node.module}.{alias.name}", node.lineno, id(node) in inside) for alias in node.names)


def room(package: Path, name: str) -> str:
    """The room that a whole name below planc belongs to; empty for planc's own `__init__`."""
    first = name.split(".")[1] if "." in name else ""
    return first if (package / first).is_dir() or (package / f"{first}.py").is_file() else ""


def privates(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Private names of other things than `self` that a module reads or patches, and private names it imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and _is_private(node.attr):
            if not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")):
                yield node.attr, node.lineno
        elif isinstance(node, ast.Call) and len(node.args) > 1:
            name = node.args[1]
            function = ast.unparse(node.func).rpartition(".")[2]
            takes_a_name = function in ("getattr", "setattr", "hasattr", "delattr", "object")
            if takes_a_name and isinstance(name, ast.Constant) and _is_private(str(name.value)):
                yield str(name.value), node.lineno
        elif isinstance(node, ast.ImportFrom) and node.module != "__future__":
            yield from ((alias.name, node.lineno) for alias in node.names if _is_private(alias.name))


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__")


def violations(package: Path) -> list[str]:
    """Everything below `package` that breaks the import rule, as `file:line: what`."""
    found = []
    for path in sorted(package.rglob("*.py")):
        shown = path.relative_to(package).as_posix()
        own = shown.partition("/")[0].removesuffix(".py")
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for name, line, is_inside in imports(tree):
            top = name.partition(".")[0]
            if top in HEAVY and not (own == "verify" and is_inside):
                found.append(f"{shown}:{line}: imports {top} {'outside verify' if own != 'verify' else 'at its top'}")
            other = room(package, name) if top == "planc" else ""
            if not other or other == own:
                continue
            if other in FORBIDDEN.get(own, ()):
                found.append(f"{shown}:{line}: {own} never imports {other}")
            elif own not in RANKS or other not in RANKS:
                found.append(f"{shown}:{line}: {own} or {other} has no rank")
            elif RANKS[other] >= RANKS[own] and (shown, other) not in EXCEPTIONS:
                found.append(f"{shown}:{line}: {own} (rank {RANKS[own]}) imports {other} (rank {RANKS[other]})")
        if shown != ADAPTER:
            found += [f"{shown}:{line}: touches the private name {name}" for name, line in privates(tree)]
    return found


def test_every_module_keeps_the_import_rule(root: Path) -> None:
    """No module of planc imports upward or sideways, torch outside `verify`, or another's private name."""
    assert violations(root / "planc") == []


def test_every_room_has_its_rank(root: Path) -> None:
    """Each module and package of planc has a rank, and each rank a module."""
    package = root / "planc"
    rooms = {path.stem for path in package.glob("*.py")} | {path.parent.name for path in package.glob("*/__init__.py")}
    assert rooms - {"__init__"} == set(RANKS)


def test_no_exception_is_idle(root: Path) -> None:
    """Each exception from the rule is still needed, and says why."""
    for (module, other), reason in EXCEPTIONS.items():
        tree = ast.parse((root / "planc" / module).read_text())
        assert any(room(root / "planc", name) == other for name, _, _ in imports(tree)), (module, other)
        assert reason


def test_only_cli_imports_by_a_made_up_name(root: Path) -> None:
    """Imports whose name is computed, which the check cannot see, stand in `cli.py` only."""
    users = [
        path.relative_to(root / "planc").as_posix()
        for path in (root / "planc").rglob("*.py")
        if re.search(r"\bimport_module\(|__import__\(", path.read_text())
    ]
    assert users == ["cli.py"]


def test_templates_touch_only_the_private_names_they_must(root: Path) -> None:
    """Private names of diffusers and torch in templates: two of a model, and those of the cpu-mesh partial."""
    found: dict[str, set[str]] = {}
    for path in (root / "templates").iterdir():
        for name in re.findall(r"\.(_[A-Za-z]\w*)", path.read_text()):
            found.setdefault(path.name, set()).add(name)
    assert found == {
        "cpu_mesh.py.j2": {"_SUPPORTED_TP_DEVICES", "_C", "_get_accelerator"},
        "script.py.j2": {"_tp_plan", "_parallel_config"},
    }


GOOD = {
    "__init__.py": '__version__ = "1"\n',
    "diagnostics.py": "import enum\n",
    "located.py": "from planc.diagnostics import Span\n",
    "spec.py": "from planc.located import Node\n",
    "ir.py": "from planc.diagnostics import Span\nfrom planc import __version__\n",
    "rules/__init__.py": "from planc.rules import model\nfrom planc.spec import Plan\n",
    "rules/model.py": "import planc.spec\n",
    "emit/__init__.py": "",
    "emit/files.py": "from planc.emit import script\nfrom planc.ir import Program\n",
    "emit/script.py": "import json\n",
    "verify/__init__.py": "",
    "verify/tiny.py": "def f():\n    import torch\n    from diffusers import DiffusionPipeline\n",
    "verify/diffusers_api.py": "def f(c):\n    import torch\n    return c._tp_plan, torch._C, getattr(c, '_cp_plan')\n",
    "cli.py": "class A:\n    def f(self):\n        return self._x, self.__dict__\n",
}
MUTATIONS = {
    "upward": ("ir.py", "from planc.cli import run\n", "ir.py:3: ir (rank 2) imports cli (rank 11)"),
    "upward in a function": (
        "located.py",
        "def f():\n    from planc import cli\n",
        "located.py:3: located (rank 1) imports cli (rank 11)",
    ),
    "upward for types only": (
        "located.py",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from planc.spec import Plan\n",
        "located.py:4: located (rank 1) imports spec (rank 2)",
    ),
    "upward by name": (
        "diagnostics.py",
        "import planc.located as x\n",
        "diagnostics.py:2: diagnostics (rank 0) imports located (rank 1)",
    ),
    "sideways": ("spec.py", "from planc.ir import Program\n", "spec.py:2: spec (rank 2) imports ir (rank 2)"),
    "ir imports spec": ("ir.py", "from planc.spec import Plan\n", "ir.py:3: ir never imports spec"),
    "emit imports rules": ("emit/script.py", "from planc import rules\n", "emit/script.py:2: emit never imports rules"),
    "emit imports verify": (
        "emit/files.py",
        "def f():\n    import planc.verify.tiny\n",
        "emit/files.py:4: emit never imports verify",
    ),
    "verify imports emit": (
        "verify/tiny.py",
        "from planc.emit.files import x\n",
        "verify/tiny.py:4: verify never imports emit",
    ),
    "a new room": ("new.py", "from planc.ir import Program\n", "new.py:1: new or ir has no rank"),
    "torch elsewhere": ("rules/model.py", "import torch\n", "rules/model.py:2: imports torch outside verify"),
    "diffusers elsewhere, lazily": (
        "emit/files.py",
        "def f():\n    from diffusers.hooks import x\n",
        "emit/files.py:4: imports diffusers outside verify",
    ),
    "torch at the top": ("verify/tiny.py", "import torch.nn\n", "verify/tiny.py:4: imports torch at its top"),
    "a private attribute": (
        "verify/tiny.py",
        "def g(model):\n    return model._tp_plan\n",
        "verify/tiny.py:5: touches the private name _tp_plan",
    ),
    "a private name in a text": (
        "verify/tiny.py",
        "def g(model):\n    return getattr(model, '_cp_plan', None)\n",
        "verify/tiny.py:5: touches the private name _cp_plan",
    ),
    "a private name imported": (
        "verify/tiny.py",
        "def g():\n    from torch import _C\n",
        "verify/tiny.py:5: touches the private name _C",
    ),
}


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A small tree that keeps the rule."""
    for name, text in GOOD.items():
        (tmp_path / "planc" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "planc" / name).write_text(text)
    return tmp_path / "planc"


def test_the_check_accepts_a_tree_that_keeps_the_rule(package: Path) -> None:
    """The check above finds nothing in a small tree that keeps the rule."""
    assert violations(package) == []


@pytest.mark.parametrize(("name", "text", "expected"), MUTATIONS.values(), ids=MUTATIONS)
def test_the_check_sees_a_broken_rule(name: str, text: str, expected: str, package: Path) -> None:
    """The check above finds each way to break the rule, at its line, when one is put into the small tree."""
    with (package / name).open("a") as file:
        file.write(text)
    assert violations(package) == [expected]
