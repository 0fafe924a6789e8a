"""P7: the scheduler that takes the place of the checkpoint's."""

from __future__ import annotations

from collections.abc import Iterator

from planc.catalog.schedulers import schedulers
from planc.rules.case import Case, Hit
from planc.shape import suggest


def unknown_scheduler(case: Case) -> Iterator[Hit]:
    """
    What it does
        Holds the class and the config values of `scheduler` against the schedulers of diffusers.

    Why is this bad
        A class that does not exist ends the script at its import. A config value that the class does not take is ignored: the images are made, with another schedule than the plan says.

    Example
        version: 1
        model: {pipeline: Flux2KleinPipeline, checkpoint: black-forest-labs/FLUX.2-klein-4B}
        targets:
          eager:
            device: cuda
            mode: eager
            scheduler:
              class: FlowMatchEulerDiscreteScheduler
              config: {flow_shift: 3.0}  # error: P702

    Use instead
        version: 1
        model: {pipeline: Flux2KleinPipeline, checkpoint: black-forest-labs/FLUX.2-klein-4B}
        targets:
          eager:
            device: cuda
            mode: eager
            scheduler:
              class: FlowMatchEulerDiscreteScheduler
              config: {shift: 3.0}
    """
    said = case.target.scheduler
    if said is None:
        return
    known = schedulers().get(said.class_)
    if known is None:
        near = suggest(said.class_, schedulers())
        yield Hit(
            span=said.span("class"),
            message=f"diffusers has no scheduler `{said.class_}`",
            hint=f"did you mean `{near}`?" if near else "write the name of one of diffusers' schedulers",
        )
        return
    for key in said.config:
        if key not in known:
            near = suggest(key, known)
            yield Hit(
                span=said.key_span("config", key),
                message=f"the config of {said.class_} takes no `{key}`",
                hint=f"did you mean `{near}`?" if near else f"it takes: {', '.join(sorted(known))}",
            )
