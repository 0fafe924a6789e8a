"""P5: static shapes and compilation."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from pathlib import PurePosixPath

from planc.catalog import expression
from planc.catalog.devices import VOLATILE_FOLDERS
from planc.rules.case import Case, Hit
from planc.spec import Shape


def refused_dynamic(case: Case) -> Iterator[Hit]:
    """
    What it does
        Reports `dynamic: true` on a device whose compiler takes static shapes only.

    Why is this bad
        `torch.compile(backend="neuron")` refuses dynamic shapes: one compiled graph a shape.

    Example
        version: 1
        model: {pipeline: Flux2KleinPipeline, checkpoint: black-forest-labs/FLUX.2-klein-4B}
        shapes: [{height: 1024, width: 1024, text_tokens: 512}]
        targets:
          compiled:
            device: neuron
            mode: compiled
            compile: {dynamic: true}  # error: P501
            cache_dir: /var/lib/neff

    Use instead
        version: 1
        model: {pipeline: Flux2KleinPipeline, checkpoint: black-forest-labs/FLUX.2-klein-4B}
        shapes: [{height: 1024, width: 1024, text_tokens: 512}]
        targets:
          compiled:
            device: neuron
            mode: compiled
            compile: {dynamic: false}
            cache_dir: /var/lib/neff
    """
    if case.device is None or not case.device.refuses_dynamic:
        return
    compiles = [case.target.compile] if case.is_compiled else []
    compiles += [component.compile for component in case.target.components.values()]
    for compile_ in compiles:
        if compile_ is not None and compile_.dynamic:
            yield Hit(
                span=compile_.span("dynamic"),
                message=f"{case.target.device} compiles static shapes only; dynamic is true and must be false",
                hint="write `dynamic: false` and declare every shape in `shapes`",
            )


def unfixed_shape(case: Case) -> Iterator[Hit]:
    """
    What it does
        Follows the declared shapes into every input of the compiled model, the text's length included, and reports what stays open.

    Why is this bad
        Each new length compiles another graph, minutes long on Neuron, in the middle of serving.

    Example
        version: 1
        model: {pipeline: Flux2KleinPipeline, checkpoint: black-forest-labs/FLUX.2-klein-4B}
        shapes: [{height: 1024, width: 1024}]  # error: P502
        targets:
          compiled:
            device: cuda
            mode: compiled

    Use instead
        version: 1
        model: {pipeline: Flux2KleinPipeline, checkpoint: black-forest-labs/FLUX.2-klein-4B}
        shapes: [{height: 1024, width: 1024, text_tokens: 512}]
        targets:
          compiled:
            device: cuda
            mode: compiled
    """
    if not case.is_compiled or case.compile.dynamic or case.card is None:
        return
    if not case.target.shapes:
        yield Hit(
            span=case.target.span("mode"),
            message="compiled mode without `shapes`: no input of the model has a fixed shape",
            hint="declare what you will make: shapes: [{height: 1024, width: 1024, text_tokens: 512}]",
        )
    for shape in case.target.shapes:
        open_inputs = _open_inputs(case, shape)
        missing = [size for size in _SAID if any(size in sizes for sizes in open_inputs.values())]
        if missing:
            verb = "is" if len(missing) == 1 else "are"
            yield Hit(
                span=shape.at.span,
                message=f"the shape does not fix {', '.join(f'`{name}`' for name in open_inputs)}: {' and '.join(f'`{size}`' for size in missing)} {verb} missing",
                notes=tuple(
                    f"{name} is [{', '.join(map(str, case.card.facts.inputs[name].shape))}]" for name in open_inputs
                ),
                hint=f"add {' and '.join(_SAID[size] for size in missing)}",
            )


_SAID = {
    "num_frames": "the number of frames, such as `num_frames: 81`",
    "text_tokens": "the length that prompts are padded to, such as `text_tokens: 512`",
}
"""What a shape may leave open."""


def _open_inputs(case: Case, shape: Shape) -> dict[str, set[str]]:
    """Inputs with a dim that the shape does not fix, and what it lacks for each."""
    assert case.card is not None
    lacking = {size for size in _SAID if getattr(shape, size) is None}
    needs = {size: {size} for size in lacking}
    for name, text in case.tokens.items():
        needs[name] = set().union(*(needs.get(part, set()) for part in expression.names(text)))
    found = {}
    for name, tensor in case.card.facts.inputs.items():
        dims = [expression.names(dim) for dim in tensor.shape if isinstance(dim, str)]
        sizes = set().union(*(needs.get(part, set()) for names in dims for part in names))
        if sizes and case.is_passed(tensor):
            found[name] = sizes
    return found


def misaligned_size(case: Case) -> Iterator[Hit]:
    """
    What it does
        Checks that height and width are multiples of what the model turns into one token.

    Why is this bad
        The pipeline only warns and makes a smaller image; on a compiled target that is another shape.

    Example
        version: 1
        model: {pipeline: Flux2KleinPipeline, checkpoint: black-forest-labs/FLUX.2-klein-4B}
        shapes:
          - height: 1000  # error: P503
            width: 1024
        targets:
          eager: {device: cuda, mode: eager}

    Use instead
        version: 1
        model: {pipeline: Flux2KleinPipeline, checkpoint: black-forest-labs/FLUX.2-klein-4B}
        shapes:
          - height: 1008
            width: 1024
        targets:
          eager: {device: cuda, mode: eager}
    """
    multiple = case.number(case.card.facts.size_multiple) if case.card else None
    if case.card is None or multiple is None:
        return
    for shape in case.target.shapes:
        for side, pixels in (("height", shape.height), ("width", shape.width)):
            if pixels % multiple:
                below = pixels // multiple * multiple
                near = " or ".join(str(size) for size in (below, below + multiple) if size)
                yield Hit(
                    span=shape.span(side),
                    message=f"a {side} of {pixels} is no multiple of {multiple}",
                    notes=(f"{case.card.class_name}: {case.card.facts.size_source}",),
                    hint=f"use {near}",
                )


def refused_compile_mode(case: Case) -> Iterator[Hit]:
    """
    What it does
        Reports a compile mode or options on a device whose own compile backend takes neither.

    Why is this bad
        Modes and options are inductor's. The neuron backend warns and compiles as by default; the tpu backend raises.

    Example
        version: 1
        model: {pipeline: Flux2KleinPipeline, checkpoint: black-forest-labs/FLUX.2-klein-4B}
        shapes: [{height: 1024, width: 1024, text_tokens: 512}]
        targets:
          compiled:
            device: neuron
            mode: compiled
            compile: {mode: max-autotune}  # error: P508
            cache_dir: /var/lib/neff

    Use instead
        version: 1
        model: {pipeline: Flux2KleinPipeline, checkpoint: black-forest-labs/FLUX.2-klein-4B}
        shapes: [{height: 1024, width: 1024, text_tokens: 512}]
        targets:
          compiled:
            device: neuron
            mode: compiled
            compile: {fullgraph: true}
            cache_dir: /var/lib/neff
    """
    if case.device is None or not case.device.refuses_mode:
        return
    compiles = [case.target.compile] if case.is_compiled else []
    compiles += [component.compile for component in case.target.components.values()]
    for compile_ in compiles:
        if compile_ is None or compile_.backend not in (None, case.device.compile_backend):
            continue
        for key, said in (("mode", compile_.mode not in (None, "default")), ("options", bool(compile_.options))):
            if said:
                yield Hit(
                    span=compile_.key_span(key),
                    message=f"the compile backend `{case.device.compile_backend}` takes no `{key}`",
                    notes=(f"seen in: {case.device.source}",),
                    hint="leave it out",
                )


def misaligned_frames(case: Case) -> Iterator[Hit]:
    """
    What it does
        Checks that the number of frames is one more than a multiple of what the VAE turns into one latent frame.

    Why is this bad
        The pipeline rounds the number: the video has other frames than the plan says, and a compiled target another shape.

    Example
        version: 1
        model: {pipeline: WanPipeline, checkpoint: Wan-AI/Wan2.1-T2V-14B-Diffusers}
        shapes:
          - height: 480
            width: 832
            num_frames: 80  # error: P507
        targets:
          eager: {device: cuda, mode: eager}

    Use instead
        version: 1
        model: {pipeline: WanPipeline, checkpoint: Wan-AI/Wan2.1-T2V-14B-Diffusers}
        shapes:
          - height: 480
            width: 832
            num_frames: 81
        targets:
          eager: {device: cuda, mode: eager}
    """
    if case.card is None or case.card.facts.frame_multiple is None:
        return
    multiple = case.number(case.card.facts.frame_multiple)
    for shape in case.target.shapes:
        frames = shape.num_frames
        if multiple is None or frames is None or (frames - 1) % multiple == 0:
            continue
        below = (frames - 1) // multiple * multiple + 1
        yield Hit(
            span=shape.span("num_frames"),
            message=f"{frames} frames are not one more than a multiple of {multiple}",
            notes=(f"the VAE of {case.lookup.pipeline_name} turns {multiple} frames into one, after the first",),
            hint=f"use {below} or {below + multiple}",
        )


def no_repeated_blocks(case: Case) -> Iterator[Hit]:
    """
    What it does
        Reports `scope: repeated_blocks` for a class that does not say which of its blocks repeat.

    Why is this bad
        `compile_repeated_blocks` raises on a class without `_repeated_blocks`; a transformers model lacks the method.

    Example
        version: 1
        model: {pipeline: Flux2KleinPipeline, checkpoint: black-forest-labs/FLUX.2-klein-4B}
        shapes: [{height: 1024, width: 1024, text_tokens: 512}]
        targets:
          compiled:
            device: cuda
            mode: compiled
            components:
              vae:
                compile: {scope: repeated_blocks}  # error: P504

    Use instead
        version: 1
        model: {pipeline: Flux2KleinPipeline, checkpoint: black-forest-labs/FLUX.2-klein-4B}
        shapes: [{height: 1024, width: 1024, text_tokens: 512}]
        targets:
          compiled:
            device: cuda
            mode: compiled
            components:
              vae:
                compile: {scope: full}
    """
    if case.card is None or case.lookup.pipeline is None:
        return
    wanted = [(case.card.class_name, bool(case.card.inventory.repeated_blocks), case.target.compile)]
    if not case.is_compiled:
        wanted.clear()
    for name, component in case.target.components.items():
        known = case.lookup.pipeline.components.get(name)
        if known is not None:
            wanted.append((known.class_, known.has_repeated_blocks, component.compile))
    for class_name, has_blocks, compile_ in wanted:
        if compile_ is not None and compile_.scope == "repeated_blocks" and not has_blocks:
            yield Hit(
                span=compile_.span("scope"),
                message=f"{class_name} has no `_repeated_blocks` to compile",
                hint="write `scope: full`",
            )


def volatile_cache(case: Case) -> Iterator[Hit]:
    """
    What it does
        Reports a compiled Neuron target without `cache_dir`, or with one in a folder that a reboot empties.

    Why is this bad
        Compiled graphs go to a temporary folder by default. After the next reboot every shape compiles again, for minutes to hours.

    Example
        version: 1
        model: {pipeline: Flux2KleinPipeline, checkpoint: black-forest-labs/FLUX.2-klein-4B}
        shapes: [{height: 1024, width: 1024, text_tokens: 512}]
        targets:
          compiled:
            device: neuron
            mode: compiled
            cache_dir: /tmp/neff  # error: P505

    Use instead
        version: 1
        model: {pipeline: Flux2KleinPipeline, checkpoint: black-forest-labs/FLUX.2-klein-4B}
        shapes: [{height: 1024, width: 1024, text_tokens: 512}]
        targets:
          compiled:
            device: neuron
            mode: compiled
            cache_dir: /var/lib/neff
    """
    target = case.target
    component = next((part.key_span("compile") for part in target.components.values() if part.compile), None)
    where = target.span("mode") if case.is_compiled else component
    if case.device is None or not case.device.loses_cache or where is None:
        return
    folder = target.cache_dir
    if folder is None:
        yield Hit(
            span=where,
            message="compiled graphs are lost at the next reboot: there is no `cache_dir`",
            hint="name a folder that stays, such as `cache_dir: /var/lib/neff`",
        )
        return
    path = PurePosixPath("/" + posixpath.normpath(folder).lstrip("/") if folder.startswith("/") else folder)
    parents = {str(parent) for parent in (path, *path.parents)}
    lost = next((known for known in VOLATILE_FOLDERS if known in parents), None)
    if lost is not None:
        yield Hit(
            span=target.span("cache_dir"),
            message=f"compiled graphs are lost at the next reboot: `{lost}` is temporary",
            hint="name a folder that stays, such as `/var/lib/neff`",
        )


def mode_and_options(case: Case) -> Iterator[Hit]:
    """
    What it does
        Reports `compile` with both a mode and options.

    Why is this bad
        A mode is a set of options: `torch.compile` takes one or the other, and raises on both.

    Example
        version: 1
        model: {pipeline: Flux2KleinPipeline, checkpoint: black-forest-labs/FLUX.2-klein-4B}
        shapes: [{height: 1024, width: 1024, text_tokens: 512}]
        targets:
          compiled:
            device: cuda
            mode: compiled
            compile:
              mode: max-autotune
              options: {epilogue_fusion: true}  # error: P506

    Use instead
        version: 1
        model: {pipeline: Flux2KleinPipeline, checkpoint: black-forest-labs/FLUX.2-klein-4B}
        shapes: [{height: 1024, width: 1024, text_tokens: 512}]
        targets:
          compiled:
            device: cuda
            mode: compiled
            compile:
              options: {max_autotune: true, epilogue_fusion: true}
    """
    parts = [case.target.compile, *(component.compile for component in case.target.components.values())]
    for compile_ in parts:
        if compile_ is not None and compile_.mode is not None and compile_.options:
            yield Hit(
                span=compile_.key_span("options"),
                message=f"`compile` has the mode `{compile_.mode}` and options; torch takes one or the other",
                hint="write the mode as options, or leave one out",
            )
