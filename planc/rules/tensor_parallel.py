"""P3: tensor-parallel degrees, patterns and blocks."""

from __future__ import annotations

from collections.abc import Iterator

from planc.catalog import expression, sharding
from planc.catalog.card import Linear
from planc.rules.case import Case, Entry, Hit, divisors, listed
from planc.rules.pattern import wildcard_faults
from planc.shape import suggest


def indivisible_heads(case: Case) -> Iterator[Hit]:
    """
    What it does
        Compares the tensor-parallel degree with the number of attention heads of the checkpoint.

    Why is this bad
        Each rank owns whole heads. diffusers refuses a degree that does not divide them, but only on the accelerator, after the weights were fetched.

    Example
        version: 1
        model: {pipeline: Flux2KleinPipeline, checkpoint: black-forest-labs/FLUX.2-klein-4B}
        targets:
          tp:
            device: cuda
            mode: eager
            tensor_parallel:
              degree: 5  # error: P301
              plan: class

    Use instead
        version: 1
        model: {pipeline: Flux2KleinPipeline, checkpoint: black-forest-labs/FLUX.2-klein-4B}
        targets:
          tp:
            device: cuda
            mode: eager
            tensor_parallel:
              degree: 4
              plan: class
    """
    parallel = case.target.tensor_parallel
    if parallel is None or case.heads is None or case.card is None or case.heads % parallel.degree == 0:
        return
    yield Hit(
        span=parallel.span("degree"),
        message=f"{case.heads} attention heads cannot be split over {parallel.degree} ranks",
        label="degree of the tensor-parallel axis",
        notes=(f"{case.model_name} has {case.card.facts.heads} = {case.heads}",),
        hint=f"use a divisor of {case.heads}: {listed(divisors(case.heads))}",
    )


def indivisible_block(case: Case) -> Iterator[Hit]:
    """
    What it does
        Compares the degree with every block of every planned Linear: the whole cut dim, or each fused block of a packed style.

    Why is this bad
        diffusers refuses an uneven split, but only on the accelerator, after the model was built.

    Example
        version: 1
        model: {pipeline: Flux2KleinPipeline, checkpoint: black-forest-labs/FLUX.2-klein-4B}
        targets:
          tp:
            device: cuda
            mode: eager
            tensor_parallel:
              degree: 3
              plan:
                x_embedder: rowwise  # error: P302

    Use instead
        version: 1
        model: {pipeline: Flux2KleinPipeline, checkpoint: black-forest-labs/FLUX.2-klein-4B}
        targets:
          tp:
            device: cuda
            mode: eager
            tensor_parallel:
              degree: 4
              plan:
                x_embedder: rowwise
    """
    parallel = case.target.tensor_parallel
    if parallel is None or case.card is None or case.sizes is None or next(indivisible_heads(case), None):
        return
    for entry in case.entries:
        found = sharding.match(case.card.inventory, entry.plan.pattern)
        if found is None or sharding.count(found, case.sizes) == 0:
            continue
        blocks = sharding.block_sizes(entry.plan, found.linear, case.sizes) or ()
        uneven = [size for size in blocks if size % parallel.degree]
        if not uneven:
            continue
        legal = [degree for degree in divisors(case.heads or uneven[0]) if all(size % degree == 0 for size in blocks)]
        dim = "output" if entry.plan.style in sharding.COLWISE else "input"
        yield Hit(
            span=entry.style_span,
            message=f"{uneven[0]} {dim} features of `{entry.plan.pattern}` cannot be split over {parallel.degree} ranks",
            label="the cut dim" if len(blocks) == 1 else "one of its fused blocks",
            notes=(_shape_note(found.linear, case),),
            hint=f"use a degree of {listed(legal)}" if legal else f"leave `{entry.plan.pattern}` out of the plan",
        )


def _shape_note(linear: Linear, case: Case) -> str:
    assert case.sizes is not None
    rows = expression.evaluate(linear.out_features, case.sizes)
    columns = expression.evaluate(linear.in_features, case.sizes)
    return f"in {case.model_name} it is a Linear of {columns} input and {rows} output features"


def unmatched_pattern(case: Case) -> Iterator[Hit]:
    """
    What it does
        Looks up every pattern of a written-out plan among the Linears of the model, indices and optional parts included.

    Why is this bad
        A pattern that names nothing shards nothing, or ends in an AttributeError on the accelerator.

    Example
        version: 1
        model: {pipeline: Flux2KleinPipeline, checkpoint: black-forest-labs/FLUX.2-klein-4B}
        targets:
          tp:
            device: cuda
            mode: eager
            tensor_parallel:
              degree: 2
              plan:
                transformer_blocks.*.attn.to_qq: colwise  # error: P303

    Use instead
        version: 1
        model: {pipeline: Flux2KleinPipeline, checkpoint: black-forest-labs/FLUX.2-klein-4B}
        targets:
          tp:
            device: cuda
            mode: eager
            tensor_parallel:
              degree: 2
              plan:
                transformer_blocks.*.attn.to_q: colwise
    """
    if case.card is None:
        return
    inventory = case.card.inventory
    for entry in case.entries:
        pattern = entry.plan.pattern
        if next(_wildcard_faults(case, entry), None):
            continue
        found = sharding.match(inventory, pattern)
        if found is None:
            near = suggest(pattern, [linear.pattern for linear in inventory.linears])
            yield Hit(
                span=entry.span,
                message=f"`{pattern}` names no Linear of {case.card.class_name}",
                hint=f"did you mean `{near}`?" if near else "`planc models` lists the Linears of every class it knows",
            )
        elif case.sizes is not None:
            yield from _absent(case, entry, found)


def _absent(case: Case, entry: Entry, found: sharding.Match) -> Iterator[Hit]:
    assert case.card is not None
    assert case.sizes is not None
    for path, index, length in sharding.indices(case.card.inventory, entry.plan.pattern):
        many = expression.evaluate(length, case.sizes)
        if index >= many:
            yield Hit(
                span=entry.span,
                message=f"`{path}` has {many} blocks, so there is no index {index}",
                notes=(f"{case.model_name} has {length} = {many}",),
                hint=f"use an index from 0 to {many - 1}, or `*` for all",
            )
            return
    if sharding.count(found, case.sizes) == 0:
        yield Hit(
            span=entry.span,
            message=f"`{entry.plan.pattern}` names no Linear of this checkpoint",
            notes=(f"{case.model_name} has {found.linear.count} = 0",),
            hint="leave it out of the plan",
        )


def misplaced_wildcard(case: Case) -> Iterator[Hit]:
    """
    What it does
        Checks that a pattern has at most one `*`, that it stands alone between dots, and that what precedes it is a `ModuleList`.

    Why is this bad
        diffusers expands one `*` over one ModuleList and raises on anything else, on the accelerator.

    Example
        version: 1
        model: {pipeline: Flux2KleinPipeline, checkpoint: black-forest-labs/FLUX.2-klein-4B}
        targets:
          tp:
            device: cuda
            mode: eager
            tensor_parallel:
              degree: 2
              plan:
                transformer_blocks.*.attn.*: colwise  # error: P304

    Use instead
        version: 1
        model: {pipeline: Flux2KleinPipeline, checkpoint: black-forest-labs/FLUX.2-klein-4B}
        targets:
          tp:
            device: cuda
            mode: eager
            tensor_parallel:
              degree: 2
              plan:
                transformer_blocks.*.attn.to_q: colwise
    """
    for entry in case.entries:
        yield from _wildcard_faults(case, entry)


def _wildcard_faults(case: Case, entry: Entry) -> Iterator[Hit]:
    if case.card is not None:
        yield from wildcard_faults(case.card, entry.plan.pattern, entry.span)


def unfit_blocks(case: Case) -> Iterator[Hit]:
    """
    What it does
        Checks the blocks of packed styles: a packed style needs blocks, its own or the Linear's; their sum must divide the fused dim; other styles take none.

    Why is this bad
        Cut at the wrong place, a rank's piece of a fused projection mixes two of them: the image is wrong and plausible.

    Example
        version: 1
        model: {pipeline: Flux2KleinPipeline, checkpoint: black-forest-labs/FLUX.2-klein-4B}
        targets:
          tp:
            device: cuda
            mode: eager
            tensor_parallel:
              degree: 2
              plan:
                transformer_blocks.*.ff.linear_in: packed_colwise  # error: P305

    Use instead
        version: 1
        model: {pipeline: Flux2KleinPipeline, checkpoint: black-forest-labs/FLUX.2-klein-4B}
        targets:
          tp:
            device: cuda
            mode: eager
            tensor_parallel:
              degree: 2
              plan:
                transformer_blocks.*.ff.linear_in: {style: packed_colwise, blocks: [1, 1]}
    """
    if case.card is None:
        return
    for entry in case.entries:
        plan = entry.plan
        found = sharding.match(case.card.inventory, plan.pattern)
        if plan.style not in sharding.PACKED:
            if plan.blocks is not None:
                yield Hit(
                    span=entry.style_span,
                    message=f"`{plan.style}` cuts the whole dim and takes no blocks",
                    hint=f"write `packed_{plan.style}`, or leave the blocks out",
                )
            continue
        if found is None:
            continue
        has_own = (found.linear.col_blocks if plan.style in sharding.COLWISE else found.linear.row_blocks) is not None
        if plan.blocks is None and not has_own:
            yield Hit(
                span=entry.style_span,
                message=f"`{plan.style}` needs blocks: `{plan.pattern}` has no `{sharding.ATTRIBUTE[plan.style]}`",
                hint=f"write the proportions of its fused parts: {{style: {plan.style}, blocks: [1, 1]}}",
            )
        elif case.sizes is not None and sharding.block_sizes(plan, found.linear, case.sizes) is None:
            total = sharding.width(plan, found.linear, case.sizes)
            parts = sharding.proportions(plan, found.linear, case.sizes) or ()
            yield Hit(
                span=entry.style_span,
                message=f"blocks {list(parts)} add up to {sum(parts)}, which does not divide the {total} features of `{plan.pattern}`",
                notes=(_shape_note(found.linear, case),),
                hint=f"use proportions whose sum divides {total}",
            )


def uncuttable_linear(case: Case) -> Iterator[Hit]:
    """
    What it does
        Reports a planned Linear that none of the styles may cut, because of what else reads its output.

    Why is this bad
        A norm over all heads would see one rank's heads only: the video is wrong and plausible.

    Example
        version: 1
        model: {pipeline: WanPipeline, checkpoint: Wan-AI/Wan2.1-T2V-14B-Diffusers}
        targets:
          tp:
            device: cuda
            mode: eager
            tensor_parallel:
              degree: 2
              plan:
                blocks.*.attn1.to_q: colwise  # error: P306

    Use instead
        version: 1
        model: {pipeline: WanPipeline, checkpoint: Wan-AI/Wan2.1-T2V-14B-Diffusers}
        targets:
          tp:
            device: cuda
            mode: eager
            tensor_parallel:
              degree: 2
              plan:
                blocks.*.ffn.net.0.proj: colwise
                blocks.*.ffn.net.2: rowwise
    """
    if case.card is None:
        return
    for entry in case.entries:
        found = sharding.match(case.card.inventory, entry.plan.pattern)
        reason = case.card.facts.whole_linears.get(found.linear.pattern) if found else None
        if reason is not None:
            yield Hit(
                span=entry.span,
                message=f"no style may cut `{entry.plan.pattern}`",
                notes=(f"in {case.card.class_name} {reason}",),
                hint="leave it out of the plan",
            )


def doubly_planned_linear(case: Case) -> Iterator[Hit]:
    """
    What it does
        Reports a Linear that two patterns name: one by `*`, the other by its index.

    Why is this bad
        diffusers groups patterns by block and cuts such a Linear twice: what a rank then holds is neither plan's.

    Example
        version: 1
        model: {pipeline: Flux2KleinPipeline, checkpoint: black-forest-labs/FLUX.2-klein-4B}
        targets:
          tp:
            device: cuda
            mode: eager
            tensor_parallel:
              degree: 2
              plan:
                transformer_blocks.*.attn.to_q: colwise
                transformer_blocks.0.attn.to_q: colwise  # error: P307

    Use instead
        version: 1
        model: {pipeline: Flux2KleinPipeline, checkpoint: black-forest-labs/FLUX.2-klein-4B}
        targets:
          tp:
            device: cuda
            mode: eager
            tensor_parallel:
              degree: 2
              plan:
                transformer_blocks.*.attn.to_q: colwise
    """
    if case.card is None:
        return
    whole: dict[str, str] = {}
    picked: list[tuple[Entry, sharding.Match]] = []
    for entry in case.entries:
        found = sharding.match(case.card.inventory, entry.plan.pattern)
        if found is not None and not found.is_one:
            whole[found.linear.pattern] = entry.plan.pattern
        elif found is not None and (case.sizes is None or not next(_absent(case, entry, found), None)):
            picked.append((entry, found))
    for entry, found in picked:
        if found.linear.pattern in whole:
            yield Hit(
                span=entry.span,
                message=f"`{entry.plan.pattern}` is planned twice: `{whole[found.linear.pattern]}` names it too",
                hint="leave one of the two out, or write the other blocks out by index",
            )
