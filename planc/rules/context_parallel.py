"""P4: degrees and options of context parallelism, and where its plan comes from."""

from __future__ import annotations

from collections.abc import Iterator

from planc.rules.case import Case, Hit, listed

SHOWN = 24
"""How many degrees a hint names."""


def refused_context_options(case: Case) -> Iterator[Hit]:
    """
    What it does
        Checks the degrees and options of `context_parallel` as diffusers' `ContextParallelConfig` does.

    Why is this bad
        diffusers refuses them when the script makes the config, on the accelerator.

    Example
        version: 1
        model: {pipeline: Flux2KleinPipeline, checkpoint: black-forest-labs/FLUX.2-klein-4B}
        targets:
          cp:
            device: cuda
            mode: eager
            attention_backend: _native_cudnn
            context_parallel:
              ring_degree: 2
              ulysses_anything: true  # error: P401
              plan: class

    Use instead
        version: 1
        model: {pipeline: Flux2KleinPipeline, checkpoint: black-forest-labs/FLUX.2-klein-4B}
        targets:
          cp:
            device: cuda
            mode: eager
            attention_backend: _native_cudnn
            context_parallel:
              ulysses_degree: 2
              ulysses_anything: true
              plan: class
    """
    parallel = case.target.context_parallel
    if parallel is None:
        return
    if parallel.rotate_method != "allgather":
        yield Hit(
            span=parallel.span("rotate_method"),
            message=f"diffusers has no `rotate_method: {parallel.rotate_method}` yet",
            notes=("diffusers 0.42.1, ContextParallelConfig: only allgather",),
            hint="write `rotate_method: allgather`",
        )
    if case.context_ranks == 1:
        yield Hit(
            span=case.target.key_span("context_parallel"),
            message="`context_parallel` over 1 rank: ring_degree and ulysses_degree are both 1",
            hint="give one of them 2 or more, such as `ulysses_degree: 2`",
        )
        return
    degrees = {"ring": parallel.ring_degree, "ulysses": parallel.ulysses_degree}
    for kind, other in (("ring", "ulysses"), ("ulysses", "ring")):
        key = f"{kind}_anything"
        wanted = parallel.ring_anything if kind == "ring" else parallel.ulysses_anything
        if wanted and (degrees[kind] == 1 or degrees[other] > 1):
            yield Hit(
                span=parallel.span(key),
                message=f"`{key}` needs `{kind}_degree` above 1 and `{other}_degree` 1; they are {degrees[kind]} and {degrees[other]}",
                hint=f"write `{kind}_degree: {case.context_ranks}` and no `{other}_degree`, or `{key}: false`",
            )


def incomplete_context_plan(case: Case) -> Iterator[Hit]:
    """
    What it does
        Reports a context-parallel plan that cannot work as a whole: the class has none of its own, planc ships none, nothing is split, or nothing is gathered.

    Why is this bad
        Without splits every rank does all the work. Without a gather each rank goes on with its own part of the result.

    Example
        version: 1
        model: {pipeline: Flux2KleinPipeline, checkpoint: black-forest-labs/FLUX.2-klein-4B}
        targets:
          cp:
            device: cuda
            mode: eager
            context_parallel:
              ulysses_degree: 2
              plan: shipped  # error: P402

    Use instead
        version: 1
        model: {pipeline: Flux2KleinPipeline, checkpoint: black-forest-labs/FLUX.2-klein-4B}
        targets:
          cp:
            device: cuda
            mode: eager
            context_parallel:
              ulysses_degree: 2
              plan: class
    """
    parallel, card = case.target.context_parallel, case.card
    if parallel is None or card is None:
        return
    has_own = bool(card.inventory.cp_plan)
    instead = "write `plan: class`, or write the plan out" if has_own else "write the plan out"
    if parallel.plan == "shipped":
        yield Hit(
            span=parallel.span("plan"),
            message=f"planc ships no context-parallel plan for {card.class_name} yet",
            hint=instead,
        )
    elif parallel.plan == "class":
        if not has_own:
            yield Hit(
                span=parallel.span("plan"),
                message=f"{card.class_name} has no `_cp_plan` of its own",
                hint=instead,
            )
    elif not any(split.plan.tensor is not None for split in case.splits):
        yield Hit(span=parallel.key_span("plan"), message="the plan splits no tensor", hint=instead)
    elif all(split.plan.tensor is not None for split in case.splits):
        last = next((entry.module for entry in card.inventory.cp_plan if entry.tensor is None), "proj_out")
        yield Hit(
            span=parallel.key_span("plan"),
            message="the plan gathers no output: each rank would keep its part of the result",
            hint=f"add the last module, such as `{last}: {{gather_dim: 1, expected_dims: 3}}`",
        )


def unsplittable_heads(case: Case) -> Iterator[Hit]:
    """
    What it does
        Compares the Ulysses degree with the attention heads that a rank has, after tensor parallelism took its share.

    Why is this bad
        Ulysses attention gives each rank whole heads of the whole sequence. With a degree that does not divide them the shapes do not fit; `ulysses_anything` pads them, but not with as many heads as a rank then has.

    Example
        version: 1
        model: {pipeline: Flux2KleinPipeline, checkpoint: black-forest-labs/FLUX.2-klein-4B}
        targets:
          cp:
            device: cuda
            mode: eager
            tensor_parallel: {degree: 4, plan: class}
            context_parallel:
              ulysses_degree: 4  # error: P408
              plan: class

    Use instead
        version: 1
        model: {pipeline: Flux2KleinPipeline, checkpoint: black-forest-labs/FLUX.2-klein-4B}
        targets:
          cp:
            device: cuda
            mode: eager
            tensor_parallel: {degree: 4, plan: class}
            context_parallel:
              ulysses_degree: 2
              plan: class
    """
    parallel, tensor = case.target.context_parallel, case.target.tensor_parallel
    degree = tensor.degree if tensor is not None and case.cuts_attention else 1
    if parallel is None or case.card is None or case.heads is None or case.heads % degree or case.refused_kinds:
        return
    heads, ranks = case.heads // degree, parallel.ulysses_degree
    if _can_share(heads, ranks, parallel.ulysses_anything):
        return
    whose = f" that each of {degree} tensor-parallel ranks has" if degree > 1 else ""
    legal = [many for many in range(2, heads + 1) if _can_share(heads, many, parallel.ulysses_anything)]
    kind = "shared, padded," if parallel.ulysses_anything else "split"
    yield Hit(
        span=parallel.span("ulysses_degree"),
        message=f"{heads} attention heads{whose} cannot be {kind} over {ranks} Ulysses ranks",
        label="degree of the Ulysses axis",
        notes=(f"{case.model_name} has {case.card.facts.heads} = {case.heads}",),
        hint=f"use {listed(legal[:SHOWN])}" if legal else "leave `ulysses_degree` out: each rank has one head",
    )


def _can_share(heads: int, ranks: int, pads: bool) -> bool:
    """Whether Ulysses ranks can share the heads: diffusers 0.42.1, attention_dispatch.py, `_maybe_pad_qkv_head`."""
    lacking = -heads % ranks
    return lacking == 0 or (pads and lacking < (heads + lacking) // ranks)


def broken_context_parallel(case: Case) -> Iterator[Hit]:
    """
    What it does
        Reports a kind of context parallelism that the model's class is known to get wrong.

    Why is this bad
        It ends in an error in the middle of the run, or in wrong numbers; the card says which, and where it was seen.

    Example
        version: 1
        model: {pipeline: LTXPipeline, checkpoint: Lightricks/LTX-Video}
        targets:
          cp:
            device: cuda
            mode: eager
            context_parallel:
              ulysses_degree: 2  # error: P411
              plan: class

    Use instead
        version: 1
        model: {pipeline: LTXPipeline, checkpoint: Lightricks/LTX-Video}
        targets:
          one: {device: cuda, mode: eager}
    """
    parallel = case.target.context_parallel
    if parallel is None or case.card is None:
        return
    refused = case.card.facts.context_parallel_refused
    for kind, degree in case.refused_kinds.items():
        others = [other for other in ("ring", "ulysses") if other not in refused]
        yield Hit(
            span=parallel.span(f"{kind}_degree"),
            message=f"{case.card.class_name} does not work with {kind} attention over {degree} ranks",
            notes=(refused[kind],),
            hint=f"use `{others[0]}_degree`" if others else "leave `context_parallel` out",
        )
