"""Document → Plan: lay together what a plan says for each target, and give it types."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import PurePath

from planc import shape
from planc.diagnostics import Diagnostic, Findings, Span
from planc.faults import BAD_NAME, EXTENDS_CYCLE, SHADOWING_NAME, UNKNOWN_TARGET
from planc.located import Located, Path, build, merge
from planc.source import Document
from planc.spec import NAME_PATTERN, SHARED_KEYS, Plan, Target

SUFFIXES = (".yaml", ".yml")
"""Endings of a plan's file name."""

OUR_FILES = frozenset({"tp_plan", "cp_plan", "manifest"})
"""Names of the files that planc writes beside the scripts."""

IMPORTED = frozenset(
    """
    accelerate anyio certifi charset_normalizer click cuda diffusers filelock fsspec ftfy functorch h11 h2 hf_xet
    hpack httpcore httpcore2 httpx httpx2 huggingface_hub hyperframe idna imageio imageio_ffmpeg importlib_metadata
    jinja2 markupsafe mpmath networkx numpy packaging pil planc psutil regex requests safetensors sentencepiece
    shellingham sniffio socksio sympy tokenizers torch torch_neuronx torch_tpu torch_xla torchgen torchvision tqdm
    transformers triton truststore typer typing_extensions urllib3 wcwidth yaml zipp
    """.split()
)
"""Modules that a script imports, itself or through diffusers and transformers."""


def load(document: Document, findings: Findings) -> Plan | None:
    """Lay together and type the targets; None, with findings, where one cannot be.

    The document must have passed `shape.check`.
    """
    path = PurePath(document.path)
    findings.add(*_name_faults(document, path))
    root = document.root.value
    shared = Located({key: root[key] for key in SHARED_KEYS if key in root}, document.root.span)
    targets: dict[str, Target] = {}
    for name, written in root["targets"].value.items():
        chain = _chain(name, root["targets"].value, findings)
        if not chain:
            continue
        whole = shared
        for step in chain:
            whole = merge(whole, root["targets"].value[step])
        tree = Located(whole.value, written.span, written.key_span)
        targets[name] = build(Target, tree, partial(_report_missing, findings), ("targets", name))
    if findings.has_errors:
        return None
    return Plan(name=path.stem, file_name=path.name, text=document.text, targets=targets)


def _chain(name: str, targets: dict[str, Located], findings: Findings) -> list[str]:
    """The targets that `name` is laid together from, the farthest first; empty, with a finding, where there is no end."""
    chain = [name]
    while (parent := targets[chain[-1]].value.get("extends")) is not None and parent.value is not None:
        if parent.value not in targets:
            near = shape.suggest(parent.value, targets)
            hint = f"did you mean `{near}`?" if near else f"targets of this file: {', '.join(targets)}"
            findings.add(UNKNOWN_TARGET.at(parent.span, f"there is no target `{parent.value}`", hint=hint))
            return []
        if parent.value in chain:
            circle = " → ".join([*chain, parent.value])
            own = targets[name].value["extends"].span
            findings.add(EXTENDS_CYCLE.at(own, f"targets extend each other in a circle: {circle}"))
            return []
        chain.append(parent.value)
    return chain[::-1]


def _report_missing(findings: Findings, path: Path, node: Located, key: str) -> None:
    findings.add(shape.missing(node, key, shape.named(path)))


def _name_faults(document: Document, path: PurePath) -> Iterator[Diagnostic]:
    start = Span(document.path, 1, 1, 1, 1)
    if not re.search(NAME_PATTERN, path.stem):
        yield shape.bad_name(path.stem, start)
    elif path.suffix not in SUFFIXES:
        yield BAD_NAME.at(start, f"a plan's file ends in {' or '.join(SUFFIXES)}, not `{path.suffix}`")
    for name, target in document.root.value["targets"].value.items():
        module = name.replace("-", "_")
        if module in OUR_FILES:
            yield SHADOWING_NAME.at(target.anchor, f"planc itself writes a file `{module}`", hint="rename the target")
        elif module in IMPORTED or module in sys.stdlib_module_names:
            yield SHADOWING_NAME.at(
                target.anchor,
                f"a script `{module}.py` would shadow the module `{module}`",
                hint=f"rename the target, for example `{name}-run`",
            )
