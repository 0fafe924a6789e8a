"""Plan + model cards → Program: every default filled in. Cannot fail after the rules."""

from __future__ import annotations

import math
from collections.abc import Mapping

from planc.catalog import card as cards
from planc.catalog import sharding
from planc.catalog.card import DTYPE_BYTES, PlanEntry
from planc.catalog.devices import DEVICES
from planc.catalog.lookup import Lookup
from planc.diagnostics import Span
from planc.ir import (
    MESH_AXES,
    Argument,
    Compile,
    Component,
    ContextParallel,
    Launch,
    Model,
    Program,
    Scheduler,
    Shape,
    ShardEntry,
    SplitEntry,
    TargetProgram,
    TensorParallel,
    Text,
)
from planc.located import Node
from planc.resources import digest
from planc.rules.case import Case
from planc.spec import Compile as CompileSpec
from planc.spec import Component as ComponentSpec
from planc.spec import Launch as LaunchSpec
from planc.spec import Plan, Target


def lower(plan: Plan, lookups: Mapping[str, Lookup]) -> Program:
    """Resolve a plan that has passed the rules; `lookups` maps a target to what is known of its model."""
    used = sorted({item.card.class_name for item in lookups.values() if item.card is not None})
    return Program(
        name=plan.name,
        folder=plan.name.replace("-", "_"),
        file_name=plan.file_name,
        plan_digest=digest(plan.text),
        card_digest=digest("".join(_card_text(name) for name in used)),
        targets=tuple(_target(Case(name, target, lookups[name])) for name, target in plan.targets.items()),
    )


def _card_text(class_name: str) -> str:
    facts = cards.FOLDER / f"{class_name}.yaml"
    return facts.read_text(encoding="utf-8") + cards.inventory_path(class_name).read_text(encoding="utf-8")


def _origins(node: Node, *keys: str) -> dict[str, Span]:
    return {key: node.span(key) for key in keys if node.says(key)}


def _target(case: Case) -> TargetProgram:
    target, pipeline = case.target, case.lookup.pipeline
    assert pipeline is not None, "the rules let an unknown pipeline through"
    denoisers = case.lookup.denoisers
    components = _components(case)
    hardware = target.hardware
    return TargetProgram(
        name=case.name,
        module=case.name.replace("-", "_"),
        device=target.device,
        mode=target.mode,
        instance=hardware.instance if hardware else None,
        model=_model(case),
        call=_call(case),
        seed=target.seed,
        shapes=_shapes(case),
        shapes_are_declared=bool(target.shapes),
        compile=_compiles(case),
        mesh=_mesh(target),
        tensor_parallel=tuple(_tensor_parallel(case, name) for name in denoisers) if target.tensor_parallel else (),
        context_parallel=tuple(_context_parallel(case, name) for name in denoisers) if target.context_parallel else (),
        attention_backend=target.attention_backend,
        scheduler=_scheduler(target),
        output=pipeline.output,
        fps=pipeline.fps,
        batch_keyword=pipeline.batch_keyword,
        components=components,
        denoisers=denoisers,
        text=_text(case, components),
        launch=_launch(case),
        origins=_origins(target, "device", "mode", "seed", "attention_backend")
        | ({"instance": hardware.span("instance")} if hardware and hardware.instance else {}),
    )


def _call(case: Case) -> tuple[Argument, ...]:
    """The plan's keywords, and those that the pipeline needs and the plan leaves to the script's options."""
    target, pipeline = case.target, case.lookup.pipeline
    assert pipeline is not None
    said = [
        Argument(name=name, kind=pipeline.call[name], value=value, origins={"value": target.span("call", name)})
        for name, value in target.call.items()
    ]
    open_ones = [
        Argument(name=name, kind=pipeline.call[name], value=None)
        for name in pipeline.required
        if name not in target.call
    ]
    return (*said, *open_ones)


def _mesh(target: Target) -> tuple[tuple[str, int], ...]:
    degrees: dict[str, int] = {}
    if (context := target.context_parallel) is not None:
        degrees |= {"ring": context.ring_degree, "ulysses": context.ulysses_degree}
    if target.tensor_parallel is not None:
        degrees["tp"] = target.tensor_parallel.degree
    return tuple((axis, degrees[axis]) for axis in MESH_AXES if axis in degrees)


def _model(case: Case) -> Model:
    model, card = case.target.model, case.card
    assert card is not None
    assert case.lookup.pipeline_name is not None
    return Model(
        pipeline=case.lookup.pipeline_name,
        transformer=card.class_name,
        checkpoint=model.checkpoint,
        revision=model.revision,
        variant=model.variant,
        use_safetensors=model.use_safetensors,
        dtype=model.dtype,
        origins=_origins(model, "pipeline", "checkpoint", "revision", "variant", "use_safetensors", "dtype"),
    )


def _text(case: Case, components: tuple[Component, ...]) -> Text:
    pipeline = case.lookup.pipeline
    assert pipeline is not None
    text = pipeline.text
    is_elsewhere = any(
        part.role == "text_encoder" and (part.on_host or part.dtype != case.target.model.dtype) for part in components
    )
    return Text(
        length_keyword=text.length_keyword,
        encode=text.encode,
        encode_takes_length=text.encode_takes_length,
        encode_keywords=text.encode_keywords,
        encode_constants=tuple(text.encode_constants.items()),
        returns=text.returns,
        mask=text.mask,
        negative=text.negative,
        image_area=text.image.area if text.image else None,
        image_size_function=text.image.size_function if text.image else "",
        is_encoded_first=is_elsewhere or case.pads_text,
        is_padded=case.pads_text,
    )


def _shapes(case: Case) -> tuple[Shape, ...]:
    pipeline = case.lookup.pipeline
    assert pipeline is not None
    length = pipeline.text.default_length
    if not case.target.shapes:
        size = pipeline.default_size
        frames = size.num_frames
        return (Shape(height=size.height, width=size.width, num_frames=frames, text_tokens=length, batch=1),)
    return tuple(
        Shape(
            height=shape.height,
            width=shape.width,
            num_frames=shape.num_frames or pipeline.default_size.num_frames,
            text_tokens=shape.text_tokens or length,
            batch=shape.batch,
            origins=_origins(shape, "height", "width", "num_frames", "text_tokens", "batch"),
        )
        for shape in case.target.shapes
    )


def _compiles(case: Case) -> tuple[Compile, ...]:
    pipeline = case.lookup.pipeline
    assert pipeline is not None
    denoisers = [(name, "forward", case.compile) for name in case.lookup.denoisers if case.is_compiled]
    others = [
        (name, pipeline.components[name].entry, part.compile)
        for name, part in case.target.components.items()
        if part.compile is not None
    ]
    return tuple(_compile(case, name, entry, spec) for name, entry, spec in (*denoisers, *others))


def _compile(case: Case, name: str, entry: str, spec: CompileSpec) -> Compile:
    return Compile(
        component=name,
        entry=entry,
        scope=spec.scope,
        backend=DEVICES[case.target.device].compile_backend if spec.backend is None else spec.backend,
        fullgraph=spec.fullgraph,
        dynamic=spec.dynamic,
        mode=spec.mode,
        options=tuple((spec.options or {}).items()),
        origins=_origins(spec, "scope", "backend", "fullgraph", "dynamic", "mode", "options"),
    )


def _tensor_parallel(case: Case, component: str) -> TensorParallel:
    parallel, card = case.target.tensor_parallel, case.card
    assert parallel is not None
    assert card is not None
    entries = tuple(
        ShardEntry(
            pattern=entry.plan.pattern, style=entry.plan.style, blocks=entry.plan.blocks, origin=entry.style_span
        )
        for entry in case.entries
    )
    item_bytes = DTYPE_BYTES[case.target.model.dtype]
    plan: tuple[PlanEntry, ...] = tuple(entry.plan for entry in case.entries)
    cut = None if case.sizes is None else sharding.elements(card, plan, case.sizes)
    released = case.lookup.checkpoint
    return TensorParallel(
        component=component,
        degree=parallel.degree,
        is_class_plan=plan == card.inventory.tp_plan,
        entries=entries,
        sharded_bytes=None if cut is None else cut // parallel.degree * item_bytes,
        whole_bytes=None if cut is None or released is None else (released.parameters - cut) * item_bytes,
        origins={"degree": parallel.span("degree"), "is_class_plan": parallel.span("plan")},
    )


def _context_parallel(case: Case, component: str) -> ContextParallel:
    parallel, card = case.target.context_parallel, case.card
    assert parallel is not None
    assert card is not None
    options = ("ring_degree", "ulysses_degree", "convert_to_fp32", "rotate_method", "ulysses_anything", "ring_anything")
    entries = tuple(
        SplitEntry(
            module=split.plan.module,
            tensor=int(tensor) if (tensor := split.plan.tensor) is not None and tensor.isdigit() else tensor,
            dim=split.plan.dim,
            expected_dims=split.plan.expected_dims,
            split_output=split.plan.split_output,
            origin=split.span,
        )
        for split in case.splits
    )
    return ContextParallel(
        component=component,
        **{key: getattr(parallel, key) for key in options},
        is_class_plan=tuple(split.plan for split in case.splits) == card.inventory.cp_plan,
        entries=entries,
        origins=_origins(parallel, *options) | {"is_class_plan": parallel.span("plan")},
    )


def _scheduler(target: Target) -> Scheduler | None:
    said = target.scheduler
    if said is None:
        return None
    return Scheduler(class_=said.class_, config=tuple(said.config.items()), origins={"class_": said.span("class")})


def _components(case: Case) -> tuple[Component, ...]:
    pipeline = case.lookup.pipeline
    assert pipeline is not None
    parts = []
    for name, known in pipeline.components.items():
        if known.entry == "none":
            continue
        said = case.target.components.get(name, ComponentSpec())
        parts.append(
            Component(
                name=name,
                role=known.role,
                on_host=said.placement == "cpu",
                dtype=said.dtype or case.target.model.dtype,
                tiling=said.tiling,
                slicing=said.slicing,
                origins=_origins(said, "dtype", "tiling", "slicing")
                | ({"on_host": said.span("placement")} if said.says("placement") else {}),
            )
        )
    return tuple(parts)


def _launch(case: Case) -> Launch:
    target: Target = case.target
    said = target.launch or LaunchSpec()
    env = dict(said.env)
    row = DEVICES[target.device]
    if target.hardware is not None and target.hardware.lnc is not None:
        env.setdefault(row.lnc_variable, str(target.hardware.lnc))
    if target.cache_dir is not None and row.cache_variable:
        env.setdefault(row.cache_variable, target.cache_dir)
    return Launch(
        world_size=math.prod(degree for _, degree in _mesh(target)),
        timeout=said.timeout,
        env=tuple(sorted(env.items())),
        origins=_env_origin(target) | _origins(said, "timeout", "env"),
    )


def _env_origin(target: Target) -> dict[str, Span]:
    """The place that put a variable into the environment, where `launch.env` did not."""
    if target.says("cache_dir"):
        return {"env": target.span("cache_dir")}
    return {"env": target.span("hardware", "lnc")} if target.says("hardware", "lnc") else {}
