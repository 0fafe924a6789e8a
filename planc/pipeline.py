"""The whole compiler on one screen: load → check → lower → emit.

What a lint does not need is imported where it is used: a pre-commit hook waits for every import.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from planc import load, rules, shape, source
from planc.catalog.lookup import Lookup, lookup
from planc.diagnostics import Fault, Findings
from planc.faults import FAULTS
from planc.spec import Plan

if TYPE_CHECKING:
    from planc.emit.files import GeneratedFile
    from planc.ir import Program


@dataclass(frozen=True, slots=True)
class Checked:
    """A plan without errors, and what is known of each target's model."""

    plan: Plan
    lookups: Mapping[str, Lookup]


def check(path: str, texts: dict[str, str], findings: Findings) -> Checked | None:
    """Load a plan and run the linter; None where something is wrong. `texts` takes the file's text, for excerpts."""
    own = Findings()
    try:
        text = source.read_text(path, own)
        if text is None:
            return None
        texts[path] = text
        document = source.parse(path, text, own)
        if document is None:
            return None
        if not own.has_errors:
            shape.check(document, own)
        plan = None if own.has_errors else load.load(document, own)
        if plan is None:
            return None
        lookups = {
            name: lookup(target.model.checkpoint, target.model.pipeline) for name, target in plan.targets.items()
        }
        rules.check(plan, lookups, own)
        return None if own.has_errors else Checked(plan, lookups)
    finally:
        findings.add(*own)


def resolve(checked: Checked) -> Program:
    """What the plan means, every default filled in."""
    from planc import lower

    return lower.lower(checked.plan, checked.lookups)


def emit(program: Program) -> tuple[GeneratedFile, ...]:
    """The files that the plan becomes."""
    from planc.emit import files

    return files.emit(program)


def faults() -> tuple[Fault, ...]:
    """Every kind of finding, in order of code."""
    known = (*FAULTS, *(rule.fault for rule in rules.RULES))
    return tuple(sorted(known, key=lambda fault: fault.code))
