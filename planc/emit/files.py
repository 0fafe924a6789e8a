"""Program → the files of its output folder."""

from __future__ import annotations

import json
from dataclasses import dataclass

from planc.catalog.devices import DEVICES
from planc.emit import python
from planc.emit.context import LaunchContext
from planc.emit.plans import plan_modules
from planc.emit.render import render
from planc.emit.script import script_context
from planc.ir import Program, TargetProgram
from planc.resources import digest

MANIFEST = "manifest.json"


@dataclass(frozen=True, slots=True)
class GeneratedFile:
    """A file to write: its path below the output folder, its text, and whether it is a program."""

    path: str
    text: str
    is_executable: bool = False


def emit(program: Program) -> tuple[GeneratedFile, ...]:
    """Every file of the plan's folder, its manifest last.

    Raises:
        EmittedCodeError: a template wrote a module that is not sound, which is a bug of planc.
    """
    files = []
    for target in program.targets:
        files += _target_files(program, target)
    for module, context in plan_modules(program).items():
        path = f"{program.folder}/{module}.py"
        files.append(GeneratedFile(path, python.gate(path, render("plans.py.j2", context))))
    files.append(GeneratedFile(f"{program.folder}/{MANIFEST}", _manifest(program, files)))
    return tuple(files)


def _target_files(program: Program, target: TargetProgram) -> list[GeneratedFile]:
    path = f"{program.folder}/{target.module}.py"
    text = python.gate(path, render("script.py.j2", script_context(program, target)))
    files = [GeneratedFile(path, text)]
    if target.is_parallel:
        launch = LaunchContext(
            target=target.name,
            plan_file=program.file_name,
            world_size=target.launch.world_size,
            unit=DEVICES[target.device].unit,
            script=f"{target.module}.sh",
            module=target.module,
        )
        files.append(GeneratedFile(f"{program.folder}/{target.module}.sh", render("launch.sh.j2", launch), True))
    return files


def _manifest(program: Program, files: list[GeneratedFile]) -> str:
    data = {
        "version": 1,
        "plan": {"file": program.file_name, "sha256": program.plan_digest},
        "cards": {"sha256": program.card_digest},
        "files": {file.path.partition("/")[2]: digest(file.text) for file in files},
    }
    return json.dumps(data, indent=2) + "\n"
