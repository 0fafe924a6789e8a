"""P1 and P7: the pipeline, its checkpoint, its components and the keywords of its call."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from planc.catalog.lookup import pipelines
from planc.rules.case import Case, Hit
from planc.shape import suggest

OWNED_KEYWORDS = {
    "height": "say sizes in `shapes`; the script has --height",
    "width": "say sizes in `shapes`; the script has --width",
    "num_frames": "say sizes in `shapes`",
    "max_sequence_length": "say it as `text_tokens` in `shapes`",
    "num_images_per_prompt": "say it as `batch` in `shapes`",
    "generator": "say `seed`; the script has --seed",
    "output_type": "the script decides by the ending of --output",
}
"""Keywords of `__call__` that the script itself passes, and where a plan says them."""

_KINDS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "text": ("text", lambda value: isinstance(value, str)),
    "integer": ("a whole number", lambda value: type(value) is int),
    "number": ("a number", lambda value: type(value) in (int, float)),
    "flag": ("true or false", lambda value: isinstance(value, bool)),
    "integers": ("a list of whole numbers", lambda value: _is_list_of(value, (int,))),
    "numbers": ("a list of numbers", lambda value: _is_list_of(value, (int, float))),
    "image": ("the path of an image", lambda value: isinstance(value, str)),
}


def _is_list_of(value: Any, kinds: tuple[type, ...]) -> bool:
    return isinstance(value, list | tuple) and bool(value) and all(type(item) in kinds for item in value)


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def unknown_pipeline(case: Case) -> Iterator[Hit]:
    """
    What it does
        Reports a model whose pipeline no card knows, or that names none and whose checkpoint does not say it.

    Why is this bad
        Without a card there is nothing to check the plan against, and no script to write.

    Example
        version: 1
        model:
          pipeline: Flux2KlienPipeline  # error: P110
          checkpoint: black-forest-labs/FLUX.2-klein-4B
        targets:
          eager: {device: cuda, mode: eager}

    Use instead
        version: 1
        model:
          pipeline: Flux2KleinPipeline
          checkpoint: black-forest-labs/FLUX.2-klein-4B
        targets:
          eager: {device: cuda, mode: eager}
    """
    if case.card is not None:
        return
    known = ", ".join(sorted(pipelines()))
    name = case.lookup.pipeline_name
    model = case.target.model
    if name is None:
        yield Hit(
            span=model.span("checkpoint"),
            message=f"no card knows the checkpoint `{model.checkpoint}`, and the plan names no pipeline",
            hint=f"add `pipeline:` with one of: {known}",
        )
        return
    near = suggest(name, pipelines())
    yield Hit(
        span=model.span("pipeline") if model.pipeline else model.span("checkpoint"),
        message=f"no card knows the pipeline `{name}`",
        hint=f"did you mean `{near}`?" if near else f"pipelines that planc knows: {known}",
    )


def pipeline_mismatch(case: Case) -> Iterator[Hit]:
    """
    What it does
        Compares the plan's pipeline with the one that the checkpoint was released for, or that a local folder's `model_index.json` names.

    Why is this bad
        The pipeline would load another text encoder or transformer than the checkpoint holds.

    Example
        version: 1
        model:
          pipeline: Flux2Pipeline  # error: P111
          checkpoint: black-forest-labs/FLUX.2-klein-4B
        targets:
          eager: {device: cuda, mode: eager}

    Use instead
        version: 1
        model:
          pipeline: Flux2KleinPipeline
          checkpoint: black-forest-labs/FLUX.2-klein-4B
        targets:
          eager: {device: cuda, mode: eager}
    """
    model, found = case.target.model, case.lookup.found_pipeline
    if case.card is not None and model.pipeline and found and found != model.pipeline:
        yield Hit(
            span=model.span("pipeline"),
            message=f"`{model.checkpoint}` is a {found}, not a {model.pipeline}",
            hint=f"write `pipeline: {found}`",
        )


def unknown_call_keyword(case: Case) -> Iterator[Hit]:
    """
    What it does
        Holds the keys of `call` against what the pipeline's `__call__` takes and a plan may say.

    Why is this bad
        The script would end in a TypeError, after the weights were loaded.

    Example
        version: 1
        model: {pipeline: Flux2KleinPipeline, checkpoint: black-forest-labs/FLUX.2-klein-4B}
        call:
          num_steps: 4  # error: P112
        targets:
          eager: {device: cuda, mode: eager}

    Use instead
        version: 1
        model: {pipeline: Flux2KleinPipeline, checkpoint: black-forest-labs/FLUX.2-klein-4B}
        call:
          num_inference_steps: 4
        targets:
          eager: {device: cuda, mode: eager}
    """
    pipeline = case.lookup.pipeline
    if pipeline is None:
        return
    for keyword in case.target.call:
        if keyword in pipeline.call:
            needed = pipeline.call_needs.get(keyword)
            if needed is not None and needed not in case.lookup.pipeline_config and case.lookup.sizes is not None:
                yield Hit(
                    span=case.target.key_span("call", keyword),
                    message=f"`{keyword}` is refused by {case.model_name}: its pipeline has no {needed}",
                    hint="leave it out, or write null",
                )
            continue
        near = suggest(keyword, pipeline.call)
        yield Hit(
            span=case.target.key_span("call", keyword),
            message=f"`{keyword}` is not a keyword that a plan passes to {case.lookup.pipeline_name}",
            hint=OWNED_KEYWORDS.get(
                keyword, f"did you mean `{near}`?" if near else f"known here: {', '.join(pipeline.call)}"
            ),
        )


def wrong_call_value(case: Case) -> Iterator[Hit]:
    """
    What it does
        Compares the values of `call` with the kind of value that each keyword takes.

    Why is this bad
        The script would pass on a value that the pipeline cannot use.

    Example
        version: 1
        model: {pipeline: Flux2KleinPipeline, checkpoint: black-forest-labs/FLUX.2-klein-4B}
        call:
          num_inference_steps: four  # error: P113
        targets:
          eager: {device: cuda, mode: eager}

    Use instead
        version: 1
        model: {pipeline: Flux2KleinPipeline, checkpoint: black-forest-labs/FLUX.2-klein-4B}
        call:
          num_inference_steps: 4
        targets:
          eager: {device: cuda, mode: eager}
    """
    pipeline = case.lookup.pipeline
    if pipeline is None:
        return
    for keyword, value in case.target.call.items():
        kind = pipeline.call.get(keyword)
        if kind is not None and not _KINDS[kind][1](value):
            yield Hit(
                span=case.target.span("call", keyword),
                message=f"`{keyword}` is `{_shown(value)}`, and takes {_KINDS[kind][0]}",
            )
        elif keyword == "num_inference_steps" and type(value) is int and value < 1:
            yield Hit(span=case.target.span("call", keyword), message=f"`{keyword}` is {value}, and must be at least 1")


def unknown_component(case: Case) -> Iterator[Hit]:
    """
    What it does
        Holds the names under `components` against the modules of the pipeline.

    Why is this bad
        What is said for a component that does not exist would be ignored.

    Example
        version: 1
        model: {pipeline: Flux2KleinPipeline, checkpoint: black-forest-labs/FLUX.2-klein-4B}
        targets:
          eager:
            device: cuda
            mode: eager
            components:
              text_encoder_2: {placement: cpu}  # error: P114

    Use instead
        version: 1
        model: {pipeline: Flux2KleinPipeline, checkpoint: black-forest-labs/FLUX.2-klein-4B}
        targets:
          eager:
            device: cuda
            mode: eager
            components:
              text_encoder: {placement: cpu}
    """
    pipeline = case.lookup.pipeline
    if pipeline is None:
        return
    known = [*case.lookup.denoisers, *(name for name, part in pipeline.components.items() if part.entry != "none")]
    for name in case.target.components:
        if name not in known:
            near = suggest(name, known)
            yield Hit(
                span=case.target.key_span("components", name),
                message=f"{case.lookup.pipeline_name} has no module `{name}`",
                hint=f"did you mean `{near}`?" if near else f"its modules: {', '.join(known)}",
            )


def unknown_checkpoint(case: Case) -> Iterator[Hit]:
    """
    What it does
        Says that a checkpoint's numbers are not known: no card has it, and it is no local folder with a `config.json`.

    Why is this bad
        Nothing is wrong. But the plan's degrees, blocks and layer indices were held against nothing, and planc does not guess.

    Example
        version: 1
        model:
          pipeline: Flux2KleinPipeline
          checkpoint: my-org/my-finetune  # error: P115
        targets:
          tp: {device: cuda, mode: eager, tensor_parallel: {degree: 2, plan: class}}

    Use instead
        version: 1
        model:
          pipeline: Flux2KleinPipeline
          checkpoint: black-forest-labs/FLUX.2-klein-4B
        targets:
          tp: {device: cuda, mode: eager, tensor_parallel: {degree: 2, plan: class}}
    """
    if case.card is not None and case.sizes is None:
        yield Hit(
            span=case.target.model.span("checkpoint"),
            message=f"the config of `{case.target.model.checkpoint}` is not known: {case.lookup.unknown}",
            notes=("not checked: degrees against heads and blocks, indices against layers, what each rank holds",),
        )


def bad_variable(case: Case) -> Iterator[Hit]:
    """
    What it does
        Reports a name in `launch.env` that cannot name an environment variable, and a value, `cache_dir` too, with a NUL character.

    Why is this bad
        Setting it fails at the script's first line.

    Example
        version: 1
        model: {pipeline: Flux2KleinPipeline, checkpoint: black-forest-labs/FLUX.2-klein-4B}
        targets:
          eager:
            device: cuda
            mode: eager
            launch:
              env: {"MY-VAR": "1"}  # error: P701

    Use instead
        version: 1
        model: {pipeline: Flux2KleinPipeline, checkpoint: black-forest-labs/FLUX.2-klein-4B}
        targets:
          eager:
            device: cuda
            mode: eager
            launch:
              env: {"MY_VAR": "1"}
    """
    launch = case.target.launch
    if "\0" in (case.target.cache_dir or ""):
        yield Hit(span=case.target.span("cache_dir"), message="`cache_dir` holds a NUL character")
    for name, value in (launch.env if launch else {}).items():
        assert launch is not None
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            yield Hit(
                span=launch.key_span("env", name),
                message=f"`{name}` cannot name an environment variable",
                hint="use letters, digits and underscores",
            )
        if "\0" in value:
            yield Hit(span=launch.span("env", name), message=f"the value of `{name}` holds a NUL character")
