"""Tensor- and context-parallel plans as Python text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from planc.emit.context import Constant, PlansContext
from planc.emit.literal import WIDTH, Call, Name, literal
from planc.ir import ContextParallel, Program, TensorParallel

TP_MODULE = "diffusers.hooks.tensor_parallel"
CP_MODULE = "diffusers.models._modeling_parallel"
"""Where diffusers 0.42.1 keeps the classes of a plan's values; its packages export neither."""
_STYLES = {"packed_colwise": "PackedColwiseParallel", "packed_rowwise": "PackedRowwiseParallel"}
"""diffusers' classes of the packed styles; the plain ones are strings. diffusers 0.42.1, hooks/tensor_parallel.py."""
_SPLIT, _GATHER = "ContextParallelInput", "ContextParallelOutput"


def tp_literal(part: TensorParallel) -> dict[str, Any]:
    """The plan as diffusers takes it: pattern to style."""
    plan: dict[str, Any] = {}
    for entry in part.entries:
        if entry.style in _STYLES:
            blocks = () if entry.blocks is None else (list(entry.blocks),)
            plan[entry.pattern] = Call(_STYLES[entry.style], blocks)
        else:
            plan[entry.pattern] = entry.style
    return plan


def cp_literal(part: ContextParallel) -> dict[str, Any]:
    """The plan as diffusers takes it: module to the tensors that are split, or to what is gathered."""
    plan: dict[str, Any] = {}
    for entry in part.entries:
        dims: list[tuple[str, Any]] = [("gather_dim" if entry.tensor is None else "split_dim", entry.dim)]
        if entry.expected_dims is not None:
            dims.append(("expected_dims", entry.expected_dims))
        if entry.tensor is None:
            plan[entry.module] = Call(_GATHER, keywords=tuple(dims))
            continue
        if entry.split_output:
            dims.append(("split_output", True))
        plan.setdefault(entry.module, {})[entry.tensor] = Call(_SPLIT, keywords=tuple(dims))
    return plan


def tp_names(parts: Iterable[TensorParallel]) -> list[str]:
    """The classes of diffusers that the tensor-parallel plans use."""
    return sorted({_STYLES[entry.style] for part in parts for entry in part.entries if entry.style in _STYLES})


def cp_names(parts: Iterable[ContextParallel]) -> list[str]:
    """The classes of diffusers that the context-parallel plans use."""
    return sorted({_GATHER if entry.tensor is None else _SPLIT for part in parts for entry in part.entries})


def cp_classes() -> tuple[str, str]:
    """The classes of a context-parallel plan's values: of a split, and of a gather."""
    return _SPLIT, _GATHER


def constants(parts: Iterable[TensorParallel | ContextParallel]) -> dict[str, Constant]:
    """Of each component with a plan that is not the class's own: the constant that holds it; equal plans share one."""
    by_text: dict[str, Constant] = {}
    found: dict[str, Constant] = {}
    for part in parts:
        if part.is_class_plan:
            continue
        kind, plan = ("TP", tp_literal(part)) if isinstance(part, TensorParallel) else ("CP", cp_literal(part))
        text, name = literal(plan, is_exploded=True), f"{part.component.upper()}_{kind}_PLAN"
        found[part.component] = by_text.setdefault(text, Constant(name=name, value=text))
    return found


def import_from(module: str, names: Sequence[str]) -> str:
    """An import statement."""
    flat = f"from {module} import {', '.join(sorted(names))}"
    if len(flat) <= WIDTH:
        return flat
    return "\n".join([f"from {module} import (", *(f"    {name}," for name in sorted(names)), ")"])


def plan_modules(program: Program) -> dict[str, PlansContext]:
    """The modules of plan dictionaries that the program needs, by name."""
    modules: dict[str, PlansContext] = {}
    tensor = {target.name: target.tensor_parallel for target in program.targets if target.tensor_parallel}
    if tensor:
        parts = [part for found in tensor.values() for part in found]
        modules["tp_plan"] = _context(
            f"Tensor-parallel plans of {program.file_name}, written by planc.",
            "`TP_PLANS[target][component]` is what diffusers calls a `_tp_plan`: module pattern to\n"
            "style. Set it on the model's class before loading, or send it upstream.",
            "TP_PLANS",
            (TP_MODULE, tp_names(parts)),
            _named(tensor, tp_literal),
        )
    context = {target.name: target.context_parallel for target in program.targets if target.context_parallel}
    if context:
        splits = [part for found in context.values() for part in found]
        modules["cp_plan"] = _context(
            f"Context-parallel plans of {program.file_name}, written by planc.",
            "`CP_PLANS[target][component]` is what diffusers calls a `_cp_plan`: module to the\n"
            "tensors that are split, or to what is gathered. Pass it to `enable_parallelism`.",
            "CP_PLANS",
            (CP_MODULE, cp_names(splits)),
            _named(context, cp_literal),
        )
    return modules


Named = list[tuple[str, str, dict[str, Any]]]
"""A target, a component, and its plan."""


def _named(plans: dict[str, tuple[Any, ...]], plan_literal: Callable[[Any], dict[str, Any]]) -> Named:
    return [(target, part.component, plan_literal(part)) for target, parts in plans.items() for part in parts]


def _context(title: str, doc: str, name: str, imports: tuple[str, list[str]], plans: Named) -> PlansContext:
    """Equal plans share one constant, named after the first target that has it."""
    constants: dict[str, str] = {}
    names: dict[str, dict[str, Name]] = {}
    for target, component, plan in plans:
        value = literal(plan, is_exploded=True)
        constant = constants.setdefault(value, f"PLAN_{target}_{component}".replace("-", "_").upper())
        names.setdefault(target, {})[component] = Name(constant)
    return PlansContext(
        title=title,
        doc=doc,
        name=name,
        imports=import_from(*imports) if imports[1] else "",
        constants=tuple(Constant(name=name, value=value) for value, name in constants.items()),
        plans=literal(names, is_exploded=True),
    )
