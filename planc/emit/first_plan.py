"""A checkpoint → the text of a first plan for it."""

from __future__ import annotations

import json

from planc.catalog import expression
from planc.catalog.lookup import Lookup
from planc.emit.context import PlanContext
from planc.emit.render import render


def render_first_plan(checkpoint: str, known: Lookup) -> str:
    """The text of a plan with an eager, a compiled, a parallel and a cpu target, as far as the class has plans."""
    assert known.card is not None
    assert known.pipeline is not None
    assert known.pipeline_name is not None
    assert known.sizes is not None
    card, size, text = known.card, known.pipeline.default_size, known.pipeline.text
    heads = expression.evaluate(card.facts.heads, known.sizes)
    degree = next(degree for degree in (8, 4, 2) if heads % degree == 0)
    frames = f"num_frames: {size.num_frames}, " if size.num_frames is not None else ""
    # The text holds an input image too, where the text encoder sees it.
    length = 4 * text.default_length if text.image is not None else text.default_length
    has_context = bool(card.inventory.cp_plan) and "ulysses" not in card.facts.context_parallel_refused
    is_tensor = bool(card.inventory.tp_plan)
    key = "tensor_parallel: {degree" if is_tensor else "context_parallel: {ulysses_degree"
    is_parallel = is_tensor or has_context
    context = PlanContext(
        pipeline=known.pipeline_name,
        checkpoint=checkpoint
        if checkpoint.replace("/", "").replace("-", "").replace(".", "").isalnum()
        else json.dumps(checkpoint),
        shape=f"{{height: {size.height}, width: {size.width}, {frames}text_tokens: {length}}}",
        parallel_name=f"tp{degree}" if is_tensor else "cp2",
        parallel_device="neuron" if is_tensor else "cuda",
        cache_dir="/var/lib/neff" if is_tensor else "",
        parallel=f"{key}: {degree if is_tensor else 2}, plan: class}}" if is_parallel else "",
        cpu_parallel=f"{key}: 2, plan: class}}" if is_parallel else "",
    )
    return render("plan.yaml.j2", context)
