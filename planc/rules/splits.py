"""P4: the entries of a context-parallel plan that is written out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from planc.catalog import expression, sharding
from planc.catalog.card import Card, Input, SplitEntry
from planc.rules.case import Case, Hit, Split
from planc.rules.pattern import wildcard_faults
from planc.shape import suggest
from planc.spec import ContextParallel, ContextParallelTensor

ONLY = "out"
"""What a card calls a module's only output."""


def malformed_split(case: Case) -> Iterator[Hit]:
    """
    What it does
        Checks what an entry of a context-parallel plan says: an argument or an output is split, a module's result is gathered; an output is named by its index.

    Why is this bad
        diffusers raises in the first forward, or takes an argument for an output.

    Example
        version: 1
        model: {pipeline: Flux2KleinPipeline, checkpoint: black-forest-labs/FLUX.2-klein-4B}
        targets:
          cp:
            device: cuda
            mode: eager
            context_parallel:
              ulysses_degree: 2
              plan:
                "":
                  hidden_states: {split_dim: 1, expected_dims: 3}
                  img_ids: {gather_dim: 1}  # error: P403
                proj_out: {gather_dim: 1, expected_dims: 3}

    Use instead
        version: 1
        model: {pipeline: Flux2KleinPipeline, checkpoint: black-forest-labs/FLUX.2-klein-4B}
        targets:
          cp:
            device: cuda
            mode: eager
            context_parallel:
              ulysses_degree: 2
              plan:
                "":
                  hidden_states: {split_dim: 1, expected_dims: 3}
                  img_ids: {split_dim: 1, expected_dims: 3}
                proj_out: {gather_dim: 1, expected_dims: 3}
    """
    parallel = case.target.context_parallel
    if parallel is None:
        return
    for module, name, tensor in _written(parallel):
        where = (module,) if name is None else (module, name)
        if (fault := _malformation(name, tensor)) is not None:
            message, hint = fault
            yield Hit(span=parallel.key_span("plan", *where), message=f"{_named(module, name)} {message}", hint=hint)


def _written(parallel: ContextParallel) -> Iterator[tuple[str, str | None, ContextParallelTensor]]:
    if isinstance(parallel.plan, str):
        return
    for module, said in parallel.plan.items():
        if isinstance(said, ContextParallelTensor):
            yield module, None, said
        else:
            yield from ((module, name, tensor) for name, tensor in said.items())


def _named(module: str, name: str | None) -> str:
    place = f"`{module}`" if module else "the model"
    return place if name is None else f"`{name}` of {place}"


def _malformation(name: str | None, tensor: ContextParallelTensor) -> tuple[str, str] | None:
    """What is wrong with an entry, and what to write; None where it is well formed."""
    splits, gathers = tensor.split_dim is not None, tensor.gather_dim is not None
    is_output = name is not None and sharding.is_index(name)
    if splits and gathers:
        return "is both split and gathered", "keep one: `split_dim` for what goes in, `gather_dim` for what comes out"
    if name is None and not gathers:
        return (
            "is a module, and says no `gather_dim`",
            "write `gather_dim`, or name the argument or output: `{hidden_states: {split_dim: 1}}`",
        )
    if name is None:
        return ("is gathered, not split: `split_output` does not fit", "leave it out") if tensor.split_output else None
    if not splits:
        return "says no `split_dim`", "write `split_dim`; to gather a result, write `gather_dim` for the module itself"
    if not is_output and not name.isidentifier():
        return "is neither an argument's name nor an output's index", "write a name, or an index such as `'0'`"
    if is_output and not tensor.split_output:
        return "is an output's index, and `split_output` is false", "write `split_output: true`"
    if not is_output and tensor.split_output:
        return "is an argument's name, and `split_output` is true", "name the output by its index, such as `'0'`"
    return None


def well_formed(case: Case) -> Iterator[Split]:
    """The splits and gathers of a target whose entries say what they must."""
    parallel = case.target.context_parallel
    if parallel is None or case.card is None:
        return
    tensors = [tensor for _, _, tensor in _written(parallel)]
    if not tensors:
        yield from case.splits
        return
    for split, tensor in zip(case.splits, tensors, strict=True):
        if _malformation(split.plan.tensor, tensor) is None:
            yield split


def tensors_of(card: Card, module: str) -> Mapping[str, Input]:
    """The tensors of a module that the card describes."""
    return {
        name: tensor
        for known, tensors in sorted(card.facts.modules.items(), key=lambda item: item[0] == module)
        if sharding.fits(module, known)
        for name, tensor in tensors.items()
    }


def tensor_of(card: Card, entry: SplitEntry) -> Input | None:
    """The tensor that an entry means; None where the card does not describe it."""
    if not entry.module and entry.tensor is not None and not entry.split_output:
        return card.facts.inputs.get(entry.tensor)
    tensors = tensors_of(card, entry.module)
    if entry.tensor is None or (entry.tensor == "0" and "0" not in tensors):
        return tensors.get(ONLY)
    return tensors.get(entry.tensor)


def _own(case: Case, split: Split) -> bool:
    """Whether the class's own plan has the entry: what it says of itself is not doubted."""
    return case.card is not None and split.plan in case.card.inventory.cp_plan


def unmatched_split(case: Case) -> Iterator[Hit]:
    """
    What it does
        Looks up the modules, arguments and outputs that a written-out context-parallel plan names.

    Why is this bad
        diffusers raises at a module or argument that does not exist, on the accelerator, after the weights were loaded.

    Example
        version: 1
        model: {pipeline: Flux2KleinPipeline, checkpoint: black-forest-labs/FLUX.2-klein-4B}
        targets:
          cp:
            device: cuda
            mode: eager
            context_parallel:
              ulysses_degree: 2
              plan:
                "":
                  hidden_state: {split_dim: 1, expected_dims: 3}  # error: P404
                proj_out: {gather_dim: 1, expected_dims: 3}

    Use instead
        version: 1
        model: {pipeline: Flux2KleinPipeline, checkpoint: black-forest-labs/FLUX.2-klein-4B}
        targets:
          cp:
            device: cuda
            mode: eager
            context_parallel:
              ulysses_degree: 2
              plan:
                "":
                  hidden_states: {split_dim: 1, expected_dims: 3}
                proj_out: {gather_dim: 1, expected_dims: 3}
    """
    for split in well_formed(case):
        yield from _unmatched(case, split)


def _unmatched(case: Case, split: Split) -> Iterator[Hit]:
    entry, card = split.plan, case.card
    if card is None or _own(case, split):
        return
    if faults := list(wildcard_faults(card, entry.module, split.span)):
        yield from faults
        return
    tensors = tensors_of(card, entry.module)
    if not entry.module and entry.tensor is not None and not entry.split_output:
        if entry.tensor not in card.facts.inputs:
            near = suggest(entry.tensor, card.facts.inputs)
            yield Hit(
                span=split.span,
                message=f"the forward of {card.class_name} gets no `{entry.tensor}`",
                hint=f"did you mean `{near}`?" if near else f"it gets: {', '.join(card.facts.inputs)}",
            )
    elif entry.tensor is not None and entry.split_output and ONLY in tensors and int(entry.tensor) > 0:
        yield Hit(
            span=split.span,
            message=f"`{entry.module}` has one output, so there is no index {entry.tensor}",
            hint="write the index `'0'`",
        )
    elif case.sizes is not None:
        for path, index, length in sharding.indices(card.inventory, entry.module):
            many = expression.evaluate(length, case.sizes)
            if index >= many:
                yield Hit(
                    span=split.span,
                    message=f"`{path}` has {many} blocks, so there is no index {index}",
                    notes=(f"{case.model_name} has {length} = {many}",),
                    hint=f"use an index from 0 to {many - 1}, or `*` for all",
                )


def unchecked_split(case: Case) -> Iterator[Hit]:
    """
    What it does
        Says that an entry of a context-parallel plan was held against nothing: the card does not describe the module or the tensor.

    Why is this bad
        Nothing need be wrong. But planc does not guess, and a misspelt module ends in an error on the accelerator.

    Example
        version: 1
        model: {pipeline: Flux2KleinPipeline, checkpoint: black-forest-labs/FLUX.2-klein-4B}
        targets:
          cp:
            device: cuda
            mode: eager
            context_parallel:
              ulysses_degree: 2
              plan:
                "":
                  hidden_states: {split_dim: 1, expected_dims: 3}
                norm_out: {gather_dim: 1, expected_dims: 3}  # error: P406

    Use instead
        version: 1
        model: {pipeline: Flux2KleinPipeline, checkpoint: black-forest-labs/FLUX.2-klein-4B}
        targets:
          cp:
            device: cuda
            mode: eager
            context_parallel:
              ulysses_degree: 2
              plan:
                "":
                  hidden_states: {split_dim: 1, expected_dims: 3}
                proj_out: {gather_dim: 1, expected_dims: 3}
    """
    card = case.card
    if card is None:
        return
    for split in well_formed(case):
        entry = split.plan
        if _own(case, split) or tensor_of(card, entry) is not None or next(_unmatched(case, split), None):
            continue
        tensors = tensors_of(card, entry.module)
        if tensors or not entry.module or sharding.has_module(card.inventory, entry.module):
            what = "result" if entry.tensor is None else f"`{entry.tensor}`"
            known = ", ".join(tensors) or "no tensor of it"
            note = f"{_named(entry.module, None)}: the card describes {known}"
            message, near = f"the {what} of {_named(entry.module, None)} was not checked", None
        else:
            near = suggest(entry.module, card.facts.modules)
            note = "not checked: that the module exists, its dims, its length against the degrees"
            message = f"the card of {card.class_name} shows no module `{entry.module}`: the entry was not checked"
        yield Hit(span=split.span, message=message, notes=(note,), hint=f"did you mean `{near}`?" if near else None)


def unfit_split(case: Case) -> Iterator[Hit]:
    """
    What it does
        Holds `split_dim`, `gather_dim` and `expected_dims` against the dims of the tensor: they must exist, agree, and the one that is split must be the sequence.

    Why is this bad
        With other `expected_dims` than the tensor has, diffusers logs "split will not be applied" and leaves it whole. Split along another dim, a rank gets a piece of every token.

    Example
        version: 1
        model: {pipeline: Flux2KleinPipeline, checkpoint: black-forest-labs/FLUX.2-klein-4B}
        targets:
          cp:
            device: cuda
            mode: eager
            context_parallel:
              ulysses_degree: 2
              plan:
                "":
                  hidden_states: {split_dim: 1, expected_dims: 4}  # error: P405
                proj_out: {gather_dim: 1, expected_dims: 3}

    Use instead
        version: 1
        model: {pipeline: Flux2KleinPipeline, checkpoint: black-forest-labs/FLUX.2-klein-4B}
        targets:
          cp:
            device: cuda
            mode: eager
            context_parallel:
              ulysses_degree: 2
              plan:
                "":
                  hidden_states: {split_dim: 1, expected_dims: 3}
                proj_out: {gather_dim: 1, expected_dims: 3}
    """
    parallel, card = case.target.context_parallel, case.card
    if parallel is None or card is None:
        return
    for split in well_formed(case):
        entry = split.plan
        tensor = tensor_of(card, entry)
        if tensor is None or _own(case, split) or next(_unmatched(case, split), None):
            continue
        where = ("plan", entry.module) if entry.tensor is None else ("plan", entry.module, entry.tensor)
        name, many = _named(entry.module, entry.tensor), len(tensor.shape)
        shown = f"{name} is [{', '.join(map(str, tensor.shape))}]"
        key = "gather_dim" if entry.tensor is None else "split_dim"
        sequence = [dim for dim in range(many) if is_sequence(case, tensor.shape[dim])]
        hint = f"write `{key}: {sequence[0]}`" if sequence else "leave it out of the plan"
        if not -many <= entry.dim < many:
            message = f"{name} has {many} dims, so there is no dim {entry.dim}"
            yield Hit(span=parallel.span(*where, key), message=message, notes=(shown,), hint=hint)
        elif entry.dim % many not in sequence:
            message = f"dim {entry.dim} of {name} is {tensor.shape[entry.dim]}, which is no part of the sequence"
            yield Hit(span=parallel.span(*where, key), message=message, notes=(shown,), hint=hint)
        if entry.tensor is not None and entry.expected_dims not in (None, many):
            yield Hit(
                span=parallel.span(*where, "expected_dims"),
                message=f"{name} has {many} dims, not {entry.expected_dims}: it would silently be left whole",
                notes=(shown,),
                hint=f"write `expected_dims: {many}`",
            )


def is_sequence(case: Case, dim: str | int) -> bool:
    """Whether a dim grows with the picture or the text."""
    if isinstance(dim, int):
        return False
    return bool(expression.names(dim) & {"height", "width", "num_frames", "text_tokens", *case.tokens})
