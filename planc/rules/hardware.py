"""P2 and P6: the machine that a target is meant for, and what fits its memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from planc.catalog import sharding
from planc.catalog.card import DTYPE_BYTES
from planc.catalog.hardware import DEFAULT_LNC, INSTANCES, Instance
from planc.rules.case import Case, Hit, divisors, listed
from planc.shape import suggest

GIB = 2**30


def _instance(case: Case) -> Instance | None:
    """The instance, where planc knows it."""
    hardware = case.target.hardware
    return None if hardware is None or hardware.instance is None else INSTANCES.get(hardware.instance)


def _usable(case: Case) -> Instance | None:
    """The instance, where its accelerators are what the target runs on."""
    known = _instance(case)
    return known if known is not None and known.chip.device == case.target.device else None


def unknown_instance(case: Case) -> Iterator[Hit]:
    """
    What it does
        Says that planc has no figures of an instance type.

    Why is this bad
        Nothing need be wrong: new types come all the time. But cores and memory were held against nothing, and planc does not guess.

    Example
        version: 1
        model: {pipeline: Flux2KleinPipeline, checkpoint: black-forest-labs/FLUX.2-klein-4B}
        targets:
          tp:
            device: neuron
            mode: eager
            hardware: {instance: trn2.48xlrage}  # error: P205

    Use instead
        version: 1
        model: {pipeline: Flux2KleinPipeline, checkpoint: black-forest-labs/FLUX.2-klein-4B}
        targets:
          tp:
            device: neuron
            mode: eager
            hardware: {instance: trn2.48xlarge}
    """
    hardware = case.target.hardware
    if hardware is None or hardware.instance is None or hardware.instance in INSTANCES:
        return
    near = suggest(hardware.instance, INSTANCES)
    yield Hit(
        span=hardware.span("instance"),
        message=f"planc has no figures of the instance type `{hardware.instance}`",
        notes=("not checked: the number of ranks, what fits a rank's memory",),
        hint=f"did you mean `{near}`?" if near else f"known here: {listed(INSTANCES)}",
    )


def unfit_instance(case: Case) -> Iterator[Hit]:
    """
    What it does
        Compares the device with what the instance has: a GPU machine runs no NeuronCores, and TorchNeuron runs on Trainium2 and Trainium3 only.

    Why is this bad
        The script ends at the process group, on a machine that was rented for it.

    Example
        version: 1
        model: {pipeline: Flux2KleinPipeline, checkpoint: black-forest-labs/FLUX.2-klein-4B}
        targets:
          tp:
            device: neuron
            mode: eager
            hardware: {instance: trn1.32xlarge}  # error: P206

    Use instead
        version: 1
        model: {pipeline: Flux2KleinPipeline, checkpoint: black-forest-labs/FLUX.2-klein-4B}
        targets:
          tp:
            device: neuron
            mode: eager
            hardware: {instance: trn2.48xlarge}
    """
    known, target = _instance(case), case.target
    if known is None or target.hardware is None or known.runs(target.device):
        return
    fit = [name for name, row in INSTANCES.items() if row.chip.device == target.device]
    yield Hit(
        span=target.hardware.span("instance"),
        message=f"{known.name} has {known.chip.name}s, which `device: {target.device}` does not run on",
        notes=(known.chip.refusal,) if known.chip.refusal else (),
        hint=f"use one of: {listed(fit)}" if fit else "leave the instance out: planc knows none for that device",
    )


def too_many_ranks(case: Case) -> Iterator[Hit]:
    """
    What it does
        Compares the number of ranks, all degrees multiplied, with the cores or GPUs of the instance.

    Why is this bad
        The last ranks find no device, and the others wait for them.

    Example
        version: 1
        model: {pipeline: Flux2KleinPipeline, checkpoint: black-forest-labs/FLUX.2-klein-4B}
        targets:
          tp:
            device: neuron
            mode: eager
            hardware: {instance: trn2.3xlarge}  # error: P207
            tensor_parallel: {degree: 8, plan: class}

    Use instead
        version: 1
        model: {pipeline: Flux2KleinPipeline, checkpoint: black-forest-labs/FLUX.2-klein-4B}
        targets:
          tp:
            device: neuron
            mode: eager
            hardware: {instance: trn2.48xlarge}
            tensor_parallel: {degree: 8, plan: class}
    """
    known, hardware = _usable(case), case.target.hardware
    if known is None or hardware is None or case.device is None:
        return
    units = known.units(hardware.lnc)
    if case.world_size <= units:
        return
    lnc = f" at LNC {hardware.lnc or DEFAULT_LNC}" if case.device.lnc_variable else ""
    larger = [
        name
        for name, row in INSTANCES.items()
        if row.chip.device == case.target.device and row.units(hardware.lnc) >= case.world_size
    ]
    yield Hit(
        span=hardware.span("instance"),
        message=f"{case.world_size} ranks do not fit {known.name}: it has {units} {case.device.unit}s{lnc}",
        notes=(f"{known.chips} {known.chip.name} chips: {known.source}",),
        hint=f"use at most {units} ranks" + (f", or one of: {listed(larger)}" if larger else ""),
    )


def overfull_memory(case: Case) -> Iterator[Hit]:
    """
    What it does
        Adds up the weights that sit on one core or GPU: the denoisers' part of a rank, and every component that is not on the host. Weights alone: activations come on top.

    Why is this bad
        Loading ends out of memory, after the download.

    Example
        version: 1
        model: {pipeline: Flux2Pipeline, checkpoint: black-forest-labs/FLUX.2-dev}
        targets:
          tp:
            device: neuron
            mode: eager
            hardware: {instance: trn2.48xlarge}  # error: P601
            tensor_parallel: {degree: 8, plan: class}

    Use instead
        version: 1
        model: {pipeline: Flux2Pipeline, checkpoint: black-forest-labs/FLUX.2-dev}
        targets:
          tp:
            device: neuron
            mode: eager
            hardware: {instance: trn2.48xlarge}
            tensor_parallel: {degree: 8, plan: class}
            components: {text_encoder: {placement: cpu}}
    """
    known, hardware = _usable(case), case.target.hardware
    if known is None or hardware is None or case.device is None or case.world_size > known.units(hardware.lnc):
        return
    limit = known.memory(hardware.lnc, case.world_size)
    parts = _weights(case, 1 if case.target.tensor_parallel is None else case.target.tensor_parallel.degree)
    total = sum(parts.values())
    if total <= limit:
        return
    yield Hit(
        span=hardware.span("instance"),
        message=f"{total:.1f} GiB of weights do not fit the {limit:g} GiB of one {case.device.unit} of {known.name}",
        notes=(
            f"on each: {listed(f'{name} {size:.1f} GiB' for name, size in parts.items())}",
            f"{known.chip.name}: {known.chip.source}",
            *_doubts(case, parts),
        ),
        hint=_relief(case, limit, known.units(hardware.lnc)),
    )


def _doubts(case: Case, parts: Mapping[str, float]) -> list[str]:
    """What is not sure of the parts that were added up."""
    released = case.lookup.checkpoint
    known = {} if released is None else released.parts
    return [f"{name}: {known[name].source}" for name in parts if name in known and "UNCONFIRMED" in known[name].source]


def _weights(case: Case, degree: int) -> dict[str, float]:
    """GiB of weights on one rank, by component, as far as the checkpoint is known."""
    released, pipeline, target = case.lookup.checkpoint, case.lookup.pipeline, case.target
    if released is None or pipeline is None or case.card is None or case.sizes is None:
        return {}
    entries = tuple(entry.plan for entry in case.entries)
    cut = sharding.elements(case.card, entries, case.sizes) if degree > 1 and entries else 0
    held = (released.parameters - cut + cut / degree) * DTYPE_BYTES[target.model.dtype] / GIB
    parts = dict.fromkeys(case.lookup.denoisers, held)
    for name, part in released.parts.items():
        said = target.components.get(name)
        if said is None or said.placement == "device":
            dtype = (said.dtype if said else None) or target.model.dtype
            parts[name] = part.parameters * DTYPE_BYTES[dtype] / GIB
    return parts


def _relief(case: Case, limit: float, units: int) -> str:
    """The least change that makes the weights fit."""
    pipeline = case.lookup.pipeline
    assert pipeline is not None
    parallel = case.target.tensor_parallel
    now = 1 if parallel is None else parallel.degree
    encoders = [name for name, part in pipeline.components.items() if part.role == "text_encoder"]
    has_plan = parallel is not None and bool(case.entries)
    degrees = [now] if not has_plan or case.heads is None else [d for d in (1, *divisors(case.heads)) if d >= now]
    for moved in ([], encoders):
        for degree in degrees:
            held = sum(size for name, size in _weights(case, degree).items() if name not in moved)
            if held <= limit and degree * case.context_ranks <= units:
                hosts = ", ".join(f"{name}: {{placement: cpu}}" for name in moved)
                said = [f"`components: {{{hosts}}}`"] if moved else []
                said += [f"a tensor-parallel degree of {degree}"] if degree != now else []
                return f"use {' and '.join(said)}"
    return "shard the weights with `tensor_parallel`" if parallel is None else "use a machine with more memory a rank"
