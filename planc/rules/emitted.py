"""P2 and P8: fields that would have no effect, and what planc cannot write yet. A field is never ignored."""

from __future__ import annotations

from collections.abc import Iterator

from planc.diagnostics import Span
from planc.rules.case import Case, Hit


def idle_field(case: Case) -> Iterator[Hit]:
    """
    What it does
        Reports a field that has no effect on this target: `compile` in eager mode, a timeout without ranks, tiling of what is no VAE.

    Why is this bad
        Who wrote it meant something by it, and would not get it.

    Example
        version: 1
        model: {pipeline: Flux2KleinPipeline, checkpoint: black-forest-labs/FLUX.2-klein-4B}
        targets:
          eager:
            device: cuda
            mode: eager
            compile: {scope: full}  # error: P201

    Use instead
        version: 1
        model: {pipeline: Flux2KleinPipeline, checkpoint: black-forest-labs/FLUX.2-klein-4B}
        shapes: [{height: 1024, width: 1024, text_tokens: 512}]
        targets:
          compiled:
            device: cuda
            mode: compiled
            compile: {scope: full}
    """
    target, device = case.target, case.device
    if device is None:
        return
    if target.says("compile") and not case.is_compiled:
        yield Hit(
            span=target.key_span("compile"),
            message="`compile` has no effect with `mode: eager`",
            hint="write `mode: compiled`, or `compile: null`",
        )
    compiles_something = case.is_compiled or any(part.compile for part in target.components.values())
    if target.says("cache_dir") and not (compiles_something or device.caches_eager):
        yield Hit(
            span=target.key_span("cache_dir"),
            message=f"`cache_dir` has no effect: nothing is compiled in eager mode on {device.name}",
            hint="write `cache_dir: null`",
        )
    elif target.says("cache_dir") and not device.cache_variable:
        yield Hit(
            span=target.key_span("cache_dir"),
            message=f"`cache_dir` has no effect on {device.name}: no setting of its compiler's cache is known",
            hint="leave it out",
        )
    if target.hardware is not None and target.hardware.lnc is not None and not device.lnc_variable:
        yield Hit(
            span=target.hardware.key_span("lnc"),
            message=f"`lnc` has no effect on {device.name}: it is a setting of NeuronCores",
            hint="leave it out",
        )
    is_parallel = target.tensor_parallel is not None or target.context_parallel is not None
    if target.launch is not None and target.launch.says("timeout") and not is_parallel:
        yield Hit(
            span=target.launch.key_span("timeout"),
            message="`timeout` has no effect: a single process has no process group",
            hint="leave it out",
        )
    context = target.context_parallel
    if context is not None and context.says("convert_to_fp32") and context.ring_degree == 1:
        yield Hit(
            span=context.key_span("convert_to_fp32"),
            message="`convert_to_fp32` has no effect: only ring attention merges partial results, and ring_degree is 1",
            hint="leave it out",
        )
    yield from _idle_in_components(case)
    if case.card is not None and case.card.facts.output == "image":
        for shape in target.shapes:
            if shape.num_frames is not None:
                yield Hit(
                    span=shape.key_span("num_frames"),
                    message=f"`num_frames` has no effect: {case.lookup.pipeline_name} makes images",
                    hint="leave it out",
                )


def _idle_in_components(case: Case) -> Iterator[Hit]:
    pipeline = case.lookup.pipeline
    if pipeline is None:
        return
    for name, component in case.target.components.items():
        known = pipeline.components.get(name)
        for key in ("tiling", "slicing"):
            if known is not None and known.role != "vae" and component.says(key):
                yield Hit(
                    span=component.key_span(key),
                    message=f"`{key}` has no effect: `{name}` is no VAE",
                    hint="leave it out",
                )


def not_emitted(case: Case) -> Iterator[Hit]:
    """
    What it does
        Reports fields of the plan format that planc checks but cannot write scripts for yet.

    Why is this bad
        Nothing is wrong with the plan. But a script that left the field out would not do what the plan says.

    Example
        version: 1
        model: {pipeline: Flux2KleinPipeline, checkpoint: black-forest-labs/FLUX.2-klein-4B}
        targets:
          tp:
            device: cuda
            mode: eager
            tensor_parallel:
              degree: 2
              plan: class
              spanning_norms: [transformer_blocks.*.attn.norm_q]  # error: P801

    Use instead
        version: 1
        model: {pipeline: Flux2KleinPipeline, checkpoint: black-forest-labs/FLUX.2-klein-4B}
        targets:
          tp:
            device: cuda
            mode: eager
            tensor_parallel: {degree: 2, plan: class}
    """
    target = case.target
    if target.launch is not None and target.launch.nnodes > 1:
        yield Hit(
            span=target.launch.span("nnodes"),
            message=f"planc writes scripts for one machine; nnodes is {target.launch.nnodes}",
            hint="write `nnodes: 1`",
        )
    yield from _not_emitted_tensor_parallel(case)
    yield from _not_emitted_components(case)


def _refused(span: Span, what: str) -> Hit:
    return Hit(span=span, message=f"planc cannot emit `{what}` yet", hint="leave it out for now")


def _not_emitted_tensor_parallel(case: Case) -> Iterator[Hit]:
    parallel = case.target.tensor_parallel
    if parallel is None:
        return
    for key in ("divided_attributes", "spanning_norms", "sliced_arguments", "sharded_parameters"):
        if parallel.says(key):
            yield _refused(parallel.key_span(key), key)
    if case.card is not None and parallel.plan == "class" and not case.card.inventory.tp_plan:
        yield Hit(
            span=parallel.span("plan"),
            message=f"{case.card.class_name} has no `_tp_plan` of its own",
            hint="write the plan out",
        )
    if parallel.plan == "shipped":
        yield Hit(
            span=parallel.span("plan"),
            message="planc ships no tensor-parallel plan for this class yet",
            hint="write `plan: class`, or write the plan out",
        )
    for entry in case.entries:
        if entry.plan.style == "colwise_gathered":
            yield _refused(entry.style_span, "colwise_gathered")


def _not_emitted_components(case: Case) -> Iterator[Hit]:
    denoisers = case.lookup.denoisers
    for name, component in case.target.components.items():
        if name in denoisers:
            yield Hit(
                span=case.target.key_span("components", name),
                message=f"planc cannot emit `components.{name}` yet: it is what the target's own fields are about",
                hint="say it in the target itself, and its data type in `model.dtype`",
            )
            continue
        if component.tensor_parallel is not None:
            yield _refused(component.key_span("tensor_parallel"), f"tensor_parallel of {name}")
        known = case.lookup.pipeline.components.get(name) if case.lookup.pipeline else None
        if component.compile is not None and known is not None and known.role == "text_encoder":
            yield Hit(
                span=component.key_span("compile"),
                message=f"planc cannot emit `compile` of {name}: its forward does not compile in one graph",
                notes=("transformers 5.24 takes a lock in the forward when hidden states are asked for",),
                hint="leave it out: the text encoder runs once a prompt",
            )
