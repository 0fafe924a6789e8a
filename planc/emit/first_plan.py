"""A checkpoint → the text of a first plan for it."""

from __future__ import annotations

import json

from planc.catalog import expression
from planc.catalog.lookup import Lookup
from planc.emit.context import PlanContext
from planc.emit.render import render


def render_first_plan(checkpoint: str, known: Lookup) -> str:
    """The text of a plan with an eager, a compiled, a tensor-parallel and a cpu target."""
    assert known.card is not None
    assert known.pipeline is not None
    assert known.pipeline_name is not None
    assert known.sizes is not None
    heads = expression.evaluate(known.card.facts.heads, known.sizes)
    size = known.pipeline.default_size
    context = PlanContext(
        pipeline=known.pipeline_name,
        checkpoint=checkpoint
        if checkpoint.replace("/", "").replace("-", "").replace(".", "").isalnum()
        else json.dumps(checkpoint),
        height=size.height,
        width=size.width,
        degree=next(degree for degree in (8, 4, 2) if heads % degree == 0),
    )
    return render("plan.yaml.j2", context)
