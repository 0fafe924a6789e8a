"""The documentation of a fault, read from its one source: the sections of its docstring."""

from __future__ import annotations

import re
import textwrap

from planc.diagnostics import Fault

SECTIONS = ("What it does", "Why is this bad", "Example", "Use instead")
MARK = re.compile(r"  # error: (P\d{3})$", re.MULTILINE)
"""The comment that marks the offending line of an example."""


def sections(fault: Fault) -> dict[str, str]:
    """The text of each section, dedented."""
    found: dict[str, list[str]] = {}
    name = ""
    for line in textwrap.dedent(fault.doc).strip("\n").splitlines():
        if line in SECTIONS:
            name = line
            found[name] = []
        elif name:
            found[name].append(line.removeprefix("    "))
    return {key: "\n".join(lines).strip("\n") for key, lines in found.items()}


def summary(fault: Fault) -> str:
    """The first sentence."""
    sentence = sections(fault)["What it does"].partition(". ")[0].rstrip(".")
    head, colon, _ = sentence.partition(": ")
    return sentence if colon and head.count("`") % 2 else head


def text(fault: Fault) -> str:
    """The whole documentation, for a terminal."""
    parts = [f"{fault.code} {fault.name} ({fault.severity.value})"]
    for name, said in sections(fault).items():
        shown = MARK.sub(r"  # <- \1", said)
        parts.append(f"{name}\n" + "\n".join(f"  {line}".rstrip() for line in shown.splitlines()))
    return "\n\n".join(parts)


def markdown(fault: Fault) -> str:
    """The whole documentation, for the docs."""
    return f"## {fault.code} `{fault.name}`\n\n*{fault.severity.value}*\n\n{body(fault)}"


def body(fault: Fault) -> str:
    """The sections as markdown, without a heading."""
    parts = []
    for name, said in sections(fault).items():
        shown = MARK.sub(r"  # <- \1", said)
        parts.append(f"**{name}**\n\n" + (f"```yaml\n{shown}\n```" if name in SECTIONS[2:] else shown))
    return "\n\n".join(parts)
