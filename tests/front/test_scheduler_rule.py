"""P702: the scheduler of a plan is one of diffusers', with values that its config takes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from planc.diagnostics import Diagnostic

Check = Callable[..., list[Diagnostic]]
PLAN = """\
version: 1
model: {{checkpoint: black-forest-labs/FLUX.2-klein-4B}}
targets:
  t: {{device: cuda, mode: eager, scheduler: {scheduler}}}
"""


@pytest.mark.parametrize(
    ("scheduler", "message", "hint"),
    [
        (
            "{class: FlowMatchEulerScheduler}",
            "no scheduler `FlowMatchEulerScheduler`",
            "FlowMatchEulerDiscreteScheduler",
        ),
        ('{class: "x(); import os"}', "no scheduler `x(); import os`", None),
        ("{class: Path}", "no scheduler `Path`", None),
        ("{class: UniPCMultistepScheduler, config: {flow_shif: 3.0}}", "takes no `flow_shif`", "flow_shift"),
        ("{class: FlowMatchEulerDiscreteScheduler, config: {'a b': 1}}", "takes no `a b`", None),
    ],
)
def test_what_diffusers_does_not_know(scheduler: str, message: str, hint: str | None, check: Check) -> None:
    """A class or a value that diffusers does not know is refused, with the one that was meant."""
    (found,) = check(PLAN.format(scheduler=scheduler))
    assert (found.code, found.span.line) == ("P702", 4)
    assert message in found.message
    assert hint is None or hint in (found.hint or "")


def test_a_scheduler_with_values_of_its_own(check: Check) -> None:
    """A class of diffusers with values that it takes is as it should be."""
    assert not check(PLAN.format(scheduler="{class: UniPCMultistepScheduler, config: {flow_shift: 3.0}}"))


def test_a_keyword_that_the_checkpoint_refuses(check: Check) -> None:
    """`guidance_scale_2` is for a Wan with two denoisers; the pipeline of one refuses it."""
    plan = "version: 1\nmodel: {{checkpoint: {}}}\ncall: {{guidance_scale_2: 3.0}}\ntargets:\n  t: {{device: cuda, mode: eager}}\n"
    (found,) = check(plan.format("Wan-AI/Wan2.1-T2V-14B-Diffusers"))
    assert (found.code, found.span.line, found.span.column) == ("P112", 3, 8)
    assert not check(plan.format("Wan-AI/Wan2.2-T2V-A14B-Diffusers"))
