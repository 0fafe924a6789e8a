"""The linter: Plan + model cards → diagnostics. No torch. The tuple below is the catalogue, in order of code."""

from __future__ import annotations

from collections.abc import Mapping

from planc.catalog.lookup import Lookup
from planc.diagnostics import Findings, Severity
from planc.rules import (
    attention,
    context_parallel,
    emitted,
    hardware,
    launch,
    model,
    scheduler,
    shapes,
    splits,
    tensor_parallel,
    tokens,
)
from planc.rules.case import Case, Rule, rule
from planc.spec import Plan

RULES: tuple[Rule, ...] = (
    rule("P110", "unknown-pipeline", Severity.ERROR, model.unknown_pipeline),
    rule("P111", "pipeline-mismatch", Severity.ERROR, model.pipeline_mismatch),
    rule("P112", "unknown-call-keyword", Severity.ERROR, model.unknown_call_keyword),
    rule("P113", "wrong-call-value", Severity.ERROR, model.wrong_call_value),
    rule("P114", "unknown-component", Severity.ERROR, model.unknown_component),
    rule("P115", "unknown-checkpoint", Severity.NOTE, model.unknown_checkpoint),
    rule("P201", "idle-field", Severity.ERROR, emitted.idle_field),
    rule("P202", "unknown-attention-backend", Severity.ERROR, attention.unknown_attention_backend),
    rule("P203", "unfit-attention-backend", Severity.ERROR, attention.unfit_attention_backend),
    rule("P204", "unmasked-attention-backend", Severity.ERROR, attention.unmasked_attention_backend),
    rule("P205", "unknown-instance", Severity.NOTE, hardware.unknown_instance),
    rule("P206", "unfit-instance", Severity.ERROR, hardware.unfit_instance),
    rule("P207", "too-many-ranks", Severity.ERROR, hardware.too_many_ranks),
    rule("P301", "indivisible-heads", Severity.ERROR, tensor_parallel.indivisible_heads),
    rule("P302", "indivisible-block", Severity.ERROR, tensor_parallel.indivisible_block),
    rule("P303", "unmatched-pattern", Severity.ERROR, tensor_parallel.unmatched_pattern),
    rule("P304", "misplaced-wildcard", Severity.ERROR, tensor_parallel.misplaced_wildcard),
    rule("P305", "unfit-blocks", Severity.ERROR, tensor_parallel.unfit_blocks),
    rule("P306", "uncuttable-linear", Severity.ERROR, tensor_parallel.uncuttable_linear),
    rule("P307", "doubly-planned-linear", Severity.ERROR, tensor_parallel.doubly_planned_linear),
    rule("P401", "refused-context-options", Severity.ERROR, context_parallel.refused_context_options),
    rule("P402", "incomplete-context-plan", Severity.ERROR, context_parallel.incomplete_context_plan),
    rule("P403", "malformed-split", Severity.ERROR, splits.malformed_split),
    rule("P404", "unmatched-split", Severity.ERROR, splits.unmatched_split),
    rule("P405", "unfit-split", Severity.ERROR, splits.unfit_split),
    rule("P406", "unchecked-split", Severity.NOTE, splits.unchecked_split),
    rule("P407", "unsplittable-tokens", Severity.ERROR, tokens.unsplittable_tokens),
    rule("P408", "unsplittable-heads", Severity.ERROR, context_parallel.unsplittable_heads),
    rule("P409", "unfit-context-backend", Severity.ERROR, attention.unfit_context_backend),
    rule("P410", "masked-ring", Severity.ERROR, attention.masked_ring),
    rule("P411", "broken-context-parallel", Severity.ERROR, context_parallel.broken_context_parallel),
    rule("P501", "refused-dynamic", Severity.ERROR, shapes.refused_dynamic),
    rule("P502", "unfixed-shape", Severity.ERROR, shapes.unfixed_shape),
    rule("P503", "misaligned-size", Severity.ERROR, shapes.misaligned_size),
    rule("P504", "no-repeated-blocks", Severity.ERROR, shapes.no_repeated_blocks),
    rule("P505", "volatile-cache", Severity.WARNING, shapes.volatile_cache),
    rule("P506", "mode-and-options", Severity.ERROR, shapes.mode_and_options),
    rule("P507", "misaligned-frames", Severity.ERROR, shapes.misaligned_frames),
    rule("P508", "refused-compile-mode", Severity.ERROR, shapes.refused_compile_mode),
    rule("P601", "overfull-memory", Severity.ERROR, hardware.overfull_memory),
    rule("P701", "bad-variable", Severity.ERROR, model.bad_variable),
    rule("P702", "unknown-scheduler", Severity.ERROR, scheduler.unknown_scheduler),
    rule("P703", "reserved-variable", Severity.ERROR, launch.reserved_variable),
    rule("P704", "contradicted-variable", Severity.ERROR, launch.contradicted_variable),
    rule("P705", "separated-text-encoders", Severity.ERROR, launch.separated_text_encoders),
    rule("P801", "not-emitted", Severity.ERROR, emitted.not_emitted),
)
"""Every rule."""


def check(plan: Plan, lookups: Mapping[str, Lookup], findings: Findings) -> None:
    """Run every rule on every target; `lookups` maps a target to what is known of its model."""
    for name, target in plan.targets.items():
        case = Case(name, target, lookups[name])
        for item in RULES:
            findings.add(*item.run(case))
