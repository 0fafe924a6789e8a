"""P2 and P4: attention backends, alone, with masks, and under context parallelism."""

from __future__ import annotations

from collections.abc import Iterator

from planc.catalog import attention
from planc.catalog.attention import BACKENDS, DEFAULT, AttentionBackend
from planc.rules.case import Case, Hit, listed
from planc.shape import suggest

SHOWN = 6
"""How many backends a hint names."""


def _row(case: Case) -> AttentionBackend | None:
    """What is known of the target's backend; None where it is no backend of diffusers."""
    return BACKENDS.get((case.target.attention_backend or DEFAULT).lower())


def _instead(case: Case, *, splits: bool = False, with_lse: bool = False, with_mask: bool = False) -> str:
    """What to write: some backends that fit the device and the data type."""
    target = case.target
    found = attention.fitting(
        target.device, target.model.dtype, splits=splits, with_lse=with_lse, with_mask=with_mask or case.passes_mask
    )
    return f"use one of: {listed(found[:SHOWN])}" if found else "leave it out"


def unknown_attention_backend(case: Case) -> Iterator[Hit]:
    """
    What it does
        Looks up `attention_backend` among the backends of diffusers.

    Why is this bad
        `set_attention_backend` raises, after the weights were loaded.

    Example
        version: 1
        model: {pipeline: Flux2KleinPipeline, checkpoint: black-forest-labs/FLUX.2-klein-4B}
        targets:
          eager:
            device: cuda
            mode: eager
            attention_backend: native_cudnn  # error: P202

    Use instead
        version: 1
        model: {pipeline: Flux2KleinPipeline, checkpoint: black-forest-labs/FLUX.2-klein-4B}
        targets:
          eager:
            device: cuda
            mode: eager
            attention_backend: _native_cudnn
    """
    said = case.target.attention_backend
    if said is not None and _row(case) is None:
        near = suggest(said.lower(), BACKENDS)
        yield Hit(
            span=case.target.span("attention_backend"),
            message=f"diffusers has no attention backend `{said}`",
            hint=f"did you mean `{near}`?" if near else _instead(case),
        )


def unfit_attention_backend(case: Case) -> Iterator[Hit]:
    """
    What it does
        Holds `attention_backend` against the device and the data type: most kernels are CUDA's, and take half precision only.

    Why is this bad
        The kernel is missing, or refuses its inputs, in the first forward.

    Example
        version: 1
        model: {pipeline: Flux2KleinPipeline, checkpoint: black-forest-labs/FLUX.2-klein-4B}
        targets:
          eager:
            device: cpu
            mode: eager
            attention_backend: flash  # error: P203

    Use instead
        version: 1
        model: {pipeline: Flux2KleinPipeline, checkpoint: black-forest-labs/FLUX.2-klein-4B}
        targets:
          eager:
            device: cuda
            mode: eager
            attention_backend: flash
    """
    row, target, parallel = _row(case), case.target, case.target.context_parallel
    if row is None or target.attention_backend is None:
        return
    if not row.runs_on(target.device):
        places = listed(row.devices or ()) or "no device of the plan format"
        yield Hit(
            span=target.span("attention_backend"),
            message=f"the attention backend `{row.name}` runs on {places}, and the device is {target.device}",
            hint=_instead(
                case, splits=parallel is not None, with_lse=parallel is not None and parallel.ring_degree > 1
            ),
        )
    elif not row.takes_dtype(target.model.dtype, target.device):
        yield Hit(
            span=target.span("attention_backend"),
            message=f"the attention backend `{row.name}` takes {' or '.join(row.dtypes)}, and the dtype is {target.model.dtype}",
            hint=f"write `dtype: {row.dtypes[0]}`, or leave the backend out",
        )


def unmasked_attention_backend(case: Case) -> Iterator[Hit]:
    """
    What it does
        Reports an attention backend that refuses masks for a model whose padded text comes with one.

    Why is this bad
        The backend raises in the first forward. Without the mask the model would read the padding as text.

    Example
        version: 1
        model: {pipeline: QwenImagePipeline, checkpoint: Qwen/Qwen-Image}
        shapes: [{height: 1024, width: 1024, text_tokens: 512}]
        targets:
          eager:
            device: cuda
            mode: eager
            attention_backend: _native_flash  # error: P204

    Use instead
        version: 1
        model: {pipeline: QwenImagePipeline, checkpoint: Qwen/Qwen-Image}
        shapes: [{height: 1024, width: 1024, text_tokens: 512}]
        targets:
          eager:
            device: cuda
            mode: eager
            attention_backend: _native_cudnn
    """
    row, parallel = _row(case), case.target.context_parallel
    is_ring = parallel is not None and parallel.ring_degree > 1
    if row is None or row.takes_mask or not case.passes_mask or is_ring or case.target.attention_backend is None:
        return
    assert case.lookup.pipeline is not None
    yield Hit(
        span=case.target.span("attention_backend"),
        message=f"the attention backend `{row.name}` takes no mask, and {case.lookup.pipeline_name} passes one",
        notes=(f"`{case.lookup.pipeline.text.mask}` hides the padding of the text",),
        hint=_instead(case, splits=parallel is not None, with_mask=True),
    )


def unfit_context_backend(case: Case) -> Iterator[Hit]:
    """
    What it does
        Holds the attention backend against `context_parallel`: it must be made for it, and for ring attention return the log-sum-exp. The default, `native`, does not.

    Why is this bad
        diffusers refuses the first kind when parallelism is enabled, and raises on the second in the first forward.

    Example
        version: 1
        model: {pipeline: Flux2KleinPipeline, checkpoint: black-forest-labs/FLUX.2-klein-4B}
        targets:
          cp:
            device: cuda
            mode: eager
            context_parallel:
              ring_degree: 2  # error: P409
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
              ring_degree: 2
              plan: class
    """
    row, target, parallel = _row(case), case.target, case.target.context_parallel
    if row is None or parallel is None or case.refused_kinds:
        return
    where = target.span("attention_backend") if target.attention_backend else parallel.span("ring_degree")
    is_ring = parallel.ring_degree > 1
    if is_ring and not attention.fitting(target.device, "bfloat16", splits=True, with_lse=True):
        yield Hit(
            span=parallel.span("ring_degree"),
            message=f"no attention backend of diffusers runs ring attention on {target.device}; ring_degree is {parallel.ring_degree}",
            hint=f"use `ulysses_degree: {case.context_ranks}`",
        )
    elif row.runs_on(target.device) and not row.splits_on(target.device):
        place = f" on {target.device}" if row.splits_context else ""
        yield Hit(
            span=target.span("attention_backend"),
            message=f"the attention backend `{row.name}` does not work with context parallelism{place}",
            hint=_instead(case, splits=True, with_lse=is_ring),
        )
    elif row.runs_on(target.device) and is_ring and not row.returns_lse:
        fit = attention.fitting(target.device, target.model.dtype, splits=True, with_lse=True)
        also = "" if fit else "`dtype: bfloat16` and "
        names = fit or attention.fitting(target.device, "bfloat16", splits=True, with_lse=True)
        yield Hit(
            span=where,
            message=f"ring attention needs the log-sum-exp, which the attention backend `{row.name}` does not return",
            hint=f"write {also}`attention_backend:` with one of: {listed(names[:SHOWN])}",
        )


def masked_ring(case: Case) -> Iterator[Hit]:
    """
    What it does
        Reports ring attention for a model that gets a mask with its padded text.

    Why is this bad
        diffusers holds the mask of a rank's own part against the keys of every other part: the image is wrong and plausible. `ring_anything` refuses masks.

    Example
        version: 1
        model: {pipeline: QwenImagePipeline, checkpoint: Qwen/Qwen-Image}
        shapes: [{height: 1024, width: 1024, text_tokens: 512}]
        targets:
          cp:
            device: cuda
            mode: eager
            attention_backend: _native_cudnn
            context_parallel:
              ring_degree: 2  # error: P410
              plan: class

    Use instead
        version: 1
        model: {pipeline: QwenImagePipeline, checkpoint: Qwen/Qwen-Image}
        shapes: [{height: 1024, width: 1024, text_tokens: 512}]
        targets:
          cp:
            device: cuda
            mode: eager
            attention_backend: _native_cudnn
            context_parallel:
              ulysses_degree: 2
              plan: class
    """
    parallel = case.target.context_parallel
    is_ring = parallel is not None and parallel.ring_degree > 1 and "ring" not in case.refused_kinds
    if parallel is None or not is_ring or not case.passes_mask:
        return
    assert case.lookup.pipeline is not None
    fate = "refuses the mask" if parallel.ring_anything else "mixes up the mask"
    yield Hit(
        span=parallel.span("ring_degree"),
        message=f"ring attention over {parallel.ring_degree} ranks {fate} that {case.lookup.pipeline_name} passes",
        notes=(
            f"`{case.lookup.pipeline.text.mask}` hides the padding of the text",
            "diffusers 0.42.1: every remote part gets the local part's mask; Qwen-Image was off by 0.84",
        ),
        hint=f"use `ulysses_degree: {case.context_ranks}`",
    )
