"""P4: the lengths that a context-parallel plan splits, at every shape of the plan."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from planc.catalog import expression
from planc.catalog.expression import Number
from planc.diagnostics import Span
from planc.rules.case import Case, Hit
from planc.rules.context_parallel import unsplittable_heads
from planc.rules.splits import is_sequence, tensor_of, well_formed
from planc.spec import Shape

REACH = 64
"""How many steps away a legal size is looked for."""
IMAGE_TEXT = 2048
"""A length to propose where the text encoder sees an image too, which alone can take more than 1024 tokens."""


def unsplittable_tokens(case: Case) -> Iterator[Hit]:
    """
    What it does
        Works out, at every declared shape, how long each split tensor is, and holds it against the number of ranks. A text that is not padded has no length to hold.

    Why is this bad
        diffusers asserts an even split, in the first forward on the accelerator. With `ulysses_anything` or `ring_anything` any length does that gives each rank a token.

    Example
        version: 1
        model: {pipeline: Flux2KleinPipeline, checkpoint: black-forest-labs/FLUX.2-klein-4B}
        shapes:
          - {height: 1008, width: 1008, text_tokens: 512}  # error: P407
        targets:
          cp:
            device: cuda
            mode: eager
            context_parallel: {ulysses_degree: 2, plan: class}

    Use instead
        version: 1
        model: {pipeline: Flux2KleinPipeline, checkpoint: black-forest-labs/FLUX.2-klein-4B}
        shapes:
          - {height: 1008, width: 1024, text_tokens: 512}
        targets:
          cp:
            device: cuda
            mode: eager
            context_parallel: {ulysses_degree: 2, plan: class}
    """
    parallel, pipeline = case.target.context_parallel, case.lookup.pipeline
    if parallel is None or pipeline is None or case.context_ranks == 1:
        return
    is_said_elsewhere = case.is_compiled and not case.compile.dynamic and not case.target.shapes
    if is_said_elsewhere or case.refused_kinds or next(unsplittable_heads(case), None):
        return
    lengths = _split_lengths(case)
    if not case.target.shapes:
        size = pipeline.default_size
        values = {"height": size.height, "width": size.width, "batch": 1}
        values |= {"num_frames": size.num_frames} if size.num_frames else {}
        where = parallel.span("ulysses_degree" if parallel.ulysses_degree > 1 else "ring_degree")
        yield from _uneven(case, lengths, _with_text(case, values, None), where, None)
    for shape in case.target.shapes:
        values = {"height": shape.height, "width": shape.width, "batch": shape.batch}
        frames = shape.num_frames or pipeline.default_size.num_frames
        values |= {"num_frames": frames} if frames else {}
        if not _is_misaligned(case, values):
            yield from _uneven(case, lengths, _with_text(case, values, shape.text_tokens), shape.at.span, shape)


def _split_lengths(case: Case) -> list[str]:
    """The lengths that the plan splits, over the shape's sizes, each once."""
    assert case.card is not None
    lengths: dict[str, None] = {}
    for split in well_formed(case):
        tensor = tensor_of(case.card, split.plan)
        if split.plan.tensor is None or tensor is None or not case.is_passed(tensor):
            continue
        dims, dim = len(tensor.shape), split.plan.dim
        if -dims <= dim < dims and split.plan.expected_dims in (None, dims) and is_sequence(case, tensor.shape[dim]):
            lengths[str(tensor.shape[dim])] = None
    return list(lengths)


def _with_text(case: Case, values: Mapping[str, int], said: int | None) -> dict[str, int]:
    """The sizes with the length of the text, where it has one."""
    pipeline = case.lookup.pipeline
    assert pipeline is not None
    is_padded = pipeline.text.pads_to_length or case.pads_text
    length = said or (pipeline.text.default_length if is_padded else None)
    return dict(values) if length is None else {**values, "text_tokens": length}


def _is_misaligned(case: Case, values: Mapping[str, int]) -> bool:
    """Whether another rule already speaks about these sizes."""
    assert case.card is not None
    multiple = case.number(case.card.facts.size_multiple) or 1
    frames = case.number(case.card.facts.frame_multiple or 1) or 1
    return bool(values["height"] % multiple or values["width"] % multiple or (values.get("num_frames", 1) - 1) % frames)


def _evaluated(case: Case, lengths: list[str], values: Mapping[str, int]) -> dict[str, int]:
    """The lengths that can be known; sizes that no picture has make some that cannot."""
    sizes: dict[str, Number] = {**(case.sizes or {}), **values}
    known: dict[str, int] = {}
    for name, text in (*case.tokens.items(), *((text, text) for text in lengths)):
        if expression.names(text) <= sizes.keys():
            try:
                known[name] = expression.evaluate(text, sizes)
            except (ValueError, OverflowError):
                continue
            sizes[name] = known[name]
    return {text: known[text] for text in lengths if text in known}


def _uneven(case: Case, lengths: list[str], values: dict[str, int], where: Span, shape: Shape | None) -> Iterator[Hit]:
    parallel, ranks = case.target.context_parallel, case.context_ranks
    assert parallel is not None
    takes_any = parallel.ring_anything or parallel.ulysses_anything

    def fits(length: int) -> bool:
        return length >= ranks if takes_any else length % ranks == 0

    known = _evaluated(case, lengths, values)
    bad = {text: length for text, length in known.items() if not fits(length)}
    if bad:
        is_text = shape is not None and shape.text_tokens is not None and set(bad) == {"text_tokens"}
        at = "" if shape is not None else f" at the default size of {case.lookup.pipeline_name}"
        yield Hit(
            span=shape.span("text_tokens") if is_text and shape is not None else where,
            message=f"{' and '.join(f'{text} = {length}' for text, length in bad.items())} cannot be split over {ranks} ranks{at}",
            notes=(
                f"ring_degree {parallel.ring_degree} times ulysses_degree {parallel.ulysses_degree} is {ranks} ranks",
            ),
            hint=_nearest(case, bad, values, fits),
        )
    elif (
        not takes_any
        and "text_tokens" not in values
        and any("text_tokens" in expression.names(text) for text in lengths)
        and not (case.is_compiled and not case.compile.dynamic)
    ):
        assert case.lookup.pipeline is not None
        usual = IMAGE_TEXT if case.lookup.pipeline.text.image else case.lookup.pipeline.text.default_length
        yield Hit(
            span=where,
            message=f"the text has no fixed length that {ranks} ranks could split: {case.lookup.pipeline_name} pads to the longest prompt only",
            hint=f"declare a length that {ranks} divides, such as `text_tokens: {-(-usual // ranks) * ranks}`",
        )


def _nearest(case: Case, bad: Mapping[str, int], values: dict[str, int], fits: Callable[[int], bool]) -> str:
    """The nearest sizes at which each of the lengths can be split."""
    assert case.card is not None
    size, frames = case.number(case.card.facts.size_multiple), case.number(case.card.facts.frame_multiple or 1)
    steps = {"text_tokens": 1, "height": size or 16, "width": size or 16, "num_frames": frames or 1}

    def legal(text: str, key: str, step: int) -> int | None:
        for away in range(1, REACH + 1):
            value = values[key] + away * step
            if value > 0 and fits(_evaluated(case, [text], {**values, key: value}).get(text, 0)):
                return value
        return None

    parts = []
    for text in bad:
        choices = []
        for key, step in steps.items():
            if key in values and _evaluated(case, [text], {**values, key: values[key] + step}).get(text) != bad[text]:
                near = [found for sign in (-1, 1) if (found := legal(text, key, sign * step)) is not None]
                choices += [f"`{key}` {' or '.join(map(str, near))}"] if near else []
        parts += [", or ".join(choices)] if choices else []
    return f"use {'; and '.join(parts)}" if parts else "use smaller degrees"
