"""What a rule looks at: one target, and what the catalogue knows of its model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from planc.catalog import expression
from planc.catalog.card import Card, Input, PlanEntry, SplitEntry
from planc.catalog.devices import DEVICES, Device
from planc.catalog.expression import Number
from planc.catalog.lookup import Lookup
from planc.diagnostics import Diagnostic, Fault, Severity, Span
from planc.spec import Compile, ContextParallelTensor, PackedStyle, Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """One place where a rule is broken; the rule's code, name and severity are added by who runs it."""

    span: Span
    message: str
    label: str = ""
    notes: tuple[str, ...] = ()
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of a target's tensor-parallel plan, and where it was said."""

    plan: PlanEntry
    span: Span
    style_span: Span


@dataclass(frozen=True, slots=True)
class Split:
    """An entry of a target's context-parallel plan, and where it was said."""

    plan: SplitEntry
    span: Span


@dataclass(frozen=True)
class Case:
    """A target under check."""

    name: str
    target: Target
    lookup: Lookup

    @property
    def card(self) -> Card | None:
        """The card of the denoisers' class, where one knows it."""
        return self.lookup.card

    @property
    def device(self) -> Device | None:
        """The row of the device, where planc writes scripts for it."""
        return DEVICES.get(self.target.device)

    @property
    def model_name(self) -> str:
        """What to call the model in a message."""
        name = self.lookup.card.class_name if self.lookup.card else "the model"
        return f"{name} of {self.target.model.checkpoint}"

    @cached_property
    def heads(self) -> int | None:
        """Attention heads of the denoisers, where they are known."""
        if self.card is None or self.lookup.sizes is None:
            return None
        return expression.evaluate(self.card.facts.heads, self.lookup.sizes)

    @property
    def sizes(self) -> Mapping[str, Number] | None:
        """The denoisers' config numbers, where they are known."""
        return self.lookup.sizes

    def number(self, text: str | int) -> int | None:
        """The value of one of the card's expressions over the config; None where the config is not known."""
        if isinstance(text, int):
            return text
        return None if self.lookup.sizes is None else expression.evaluate(text, self.lookup.sizes)

    @property
    def pads_text(self) -> bool:
        """Whether the script must pad the text: a shape says how long it is, and the pipeline does not pad."""
        pipeline = self.lookup.pipeline
        return (
            pipeline is not None
            and not pipeline.text.pads_to_length
            and any(shape.text_tokens is not None for shape in self.target.shapes)
        )

    @cached_property
    def passes_mask(self) -> bool:
        """Whether the denoiser gets a mask that hides padding: its class takes one, and somebody pads."""
        pipeline = self.lookup.pipeline
        if self.card is None or pipeline is None or pipeline.text.mask is None:
            return False
        takes = any(tensor.is_mask and self.is_passed(tensor) for tensor in self.card.facts.inputs.values())
        return takes and (pipeline.text.pads_to_length or self.pads_text)

    def is_passed(self, tensor: Input) -> bool:
        """Whether the config has the flag without which an input is not passed."""
        if tensor.when is None:
            return True
        return bool((self.sizes or {}).get(tensor.when) or self.lookup.pipeline_config.get(tensor.when))

    @cached_property
    def tokens(self) -> Mapping[str, str]:
        """How height, width and frames become tokens for this pipeline; each may use those before it."""
        return self.lookup.tokens

    @property
    def cuts_attention(self) -> bool:
        """Whether the tensor-parallel plan cuts attention layers, so that a rank has a part of the heads only."""
        return any(step.startswith("attn") for entry in self.entries for step in entry.plan.pattern.split("."))

    @cached_property
    def context_ranks(self) -> int:
        """Ranks that share one sequence."""
        parallel = self.target.context_parallel
        return 1 if parallel is None else parallel.ring_degree * parallel.ulysses_degree

    @cached_property
    def refused_kinds(self) -> Mapping[str, int]:
        """Kinds of context parallelism that the target uses and the card refuses, and over how many ranks."""
        parallel = self.target.context_parallel
        if parallel is None or self.card is None:
            return {}
        degrees = {"ring": parallel.ring_degree, "ulysses": parallel.ulysses_degree}
        refused = self.card.facts.context_parallel_refused
        return {kind: degree for kind, degree in degrees.items() if degree > 1 and kind in refused}

    @cached_property
    def world_size(self) -> int:
        """Ranks in all."""
        parallel = self.target.tensor_parallel
        return self.context_ranks * (1 if parallel is None else parallel.degree)

    @cached_property
    def compile(self) -> Compile:
        """How the denoisers are compiled, defaults filled in."""
        return self.target.compile or Compile()

    @property
    def is_compiled(self) -> bool:
        """Whether the target compiles its denoisers."""
        return self.target.mode == "compiled"

    @cached_property
    def entries(self) -> tuple[Entry, ...]:
        """The target's tensor-parallel plan, entry by entry; the class's own where it says so."""
        parallel = self.target.tensor_parallel
        if parallel is None or self.card is None:
            return ()
        if isinstance(parallel.plan, str):
            span = parallel.span("plan")
            own = self.card.inventory.tp_plan if parallel.plan == "class" else ()
            return tuple(Entry(entry, span, span) for entry in own)
        return tuple(
            Entry(_plan_entry(pattern, style), parallel.key_span("plan", pattern), parallel.span("plan", pattern))
            for pattern, style in parallel.plan.items()
        )

    @cached_property
    def splits(self) -> tuple[Split, ...]:
        """The target's context-parallel plan, tensor by tensor; the class's own where it says so."""
        parallel = self.target.context_parallel
        if parallel is None or self.card is None:
            return ()
        if isinstance(parallel.plan, str):
            own = self.card.inventory.cp_plan if parallel.plan == "class" else ()
            return tuple(Split(entry, parallel.span("plan")) for entry in own)
        splits: list[Split] = []
        for module, said in parallel.plan.items():
            if isinstance(said, ContextParallelTensor):
                splits.append(Split(_split_entry(module, None, said), parallel.key_span("plan", module)))
                continue
            splits += [
                Split(_split_entry(module, name, tensor), parallel.key_span("plan", module, name))
                for name, tensor in said.items()
            ]
        return tuple(splits)


def divisors(number: int) -> list[int]:
    """The divisors of `number` above 1."""
    return [candidate for candidate in range(2, number + 1) if number % candidate == 0]


def listed(items: Iterable[object]) -> str:
    """Numbers or names as a sentence lists them."""
    return ", ".join(map(str, items))


def _split_entry(module: str, tensor: str | None, said: ContextParallelTensor) -> SplitEntry:
    dim = said.gather_dim if tensor is None else said.split_dim
    return SplitEntry(
        module=module,
        tensor=tensor,
        dim=0 if dim is None else dim,
        expected_dims=said.expected_dims,
        split_output=said.split_output,
    )


def _plan_entry(pattern: str, style: str | PackedStyle) -> PlanEntry:
    if isinstance(style, str):
        return PlanEntry(pattern=pattern, style=style)
    return PlanEntry(pattern=pattern, style=style.style, blocks=style.blocks)


@dataclass(frozen=True)
class Rule:
    """A check with its record; its docstring is its documentation."""

    fault: Fault
    check: Callable[[Case], Iterator[Hit]]

    def run(self, case: Case) -> Iterable[Diagnostic]:
        """Every place where the case breaks the rule."""
        for hit in self.check(case):
            yield self.fault.at(hit.span, hit.message, label=hit.label, notes=hit.notes, hint=hit.hint)


def rule(code: str, name: str, severity: Severity, check: Callable[[Case], Iterator[Hit]]) -> Rule:
    """Bind a code, a name and a severity to a check."""
    return Rule(Fault(code, name, severity, check.__doc__ or ""), check)
