"""P7: the environment of a script, and what must agree between components."""

from __future__ import annotations

from collections.abc import Iterator

from planc.rules.case import Case, Hit, listed
from planc.spec import Component

TORCHRUN = frozenset(
    (
        "LOCAL_RANK RANK GROUP_RANK ROLE_RANK LOCAL_WORLD_SIZE WORLD_SIZE ROLE_WORLD_SIZE MASTER_ADDR MASTER_PORT "
        "TORCHELASTIC_RESTART_COUNT TORCHELASTIC_MAX_RESTARTS TORCHELASTIC_RUN_ID"
    ).split()
)
"""Variables that torchrun sets for each rank. torch 2.13, torch/distributed/run.py, Environment Variables."""


def reserved_variable(case: Case) -> Iterator[Hit]:
    """
    What it does
        Reports a variable in `launch.env` that torchrun sets itself: ranks, the number of them, the address and port they meet at.

    Why is this bad
        The ranks' own values win, so it does nothing; without torchrun a script would wait for ranks that do not exist. With a fixed port a second run on the machine fails.

    Example
        version: 1
        model: {pipeline: Flux2KleinPipeline, checkpoint: black-forest-labs/FLUX.2-klein-4B}
        targets:
          tp:
            device: cuda
            mode: eager
            tensor_parallel: {degree: 2, plan: class}
            launch:
              env: {MASTER_PORT: "29500"}  # error: P703

    Use instead
        version: 1
        model: {pipeline: Flux2KleinPipeline, checkpoint: black-forest-labs/FLUX.2-klein-4B}
        targets:
          tp:
            device: cuda
            mode: eager
            tensor_parallel: {degree: 2, plan: class}
            launch:
              env: {NCCL_DEBUG: WARN}
    """
    launch = case.target.launch
    for name in launch.env if launch else ():
        assert launch is not None
        if name in TORCHRUN:
            yield Hit(
                span=launch.key_span("env", name),
                message=f"`{name}` is torchrun's own: it sets the variable for each of {case.world_size} ranks",
                hint="leave it out; `--standalone` picks a free port",
            )


def contradicted_variable(case: Case) -> Iterator[Hit]:
    """
    What it does
        Reports a variable in `launch.env` that says another thing than the field of the plan that sets it: `hardware.lnc` or `cache_dir`.

    Why is this bad
        One of the two would win without a word.

    Example
        version: 1
        model: {pipeline: Flux2KleinPipeline, checkpoint: black-forest-labs/FLUX.2-klein-4B}
        targets:
          tp:
            device: neuron
            mode: eager
            hardware: {lnc: 2}
            launch:
              env: {NEURON_LOGICAL_NC_CONFIG: "1"}  # error: P704

    Use instead
        version: 1
        model: {pipeline: Flux2KleinPipeline, checkpoint: black-forest-labs/FLUX.2-klein-4B}
        targets:
          tp:
            device: neuron
            mode: eager
            hardware: {lnc: 1}
    """
    target, device, launch = case.target, case.device, case.target.launch
    if device is None or launch is None:
        return
    lnc = target.hardware.lnc if target.hardware else None
    for field, variable, value in (
        ("hardware.lnc", device.lnc_variable, None if lnc is None else str(lnc)),
        ("cache_dir", device.cache_variable, target.cache_dir),
    ):
        said = launch.env.get(variable) if variable else None
        if said is not None and value is not None and said != value:
            yield Hit(
                span=launch.span("env", variable),
                message=f"`{variable}` is `{said}` here, and `{field}` says `{value}`",
                hint=f"say it once, in `{field}`",
            )


def separated_text_encoders(case: Case) -> Iterator[Hit]:
    """
    What it does
        Compares the placement and data type of a pipeline's text encoders.

    Why is this bad
        A pipeline with two encoders calls both with one device, and joins what they return: apart, one of them gets its tokens on the wrong device.

    Example
        version: 1
        model: {pipeline: FluxPipeline, checkpoint: black-forest-labs/FLUX.1-dev}
        targets:
          eager:
            device: cuda
            mode: eager
            components:
              text_encoder_2: {placement: cpu}  # error: P705

    Use instead
        version: 1
        model: {pipeline: FluxPipeline, checkpoint: black-forest-labs/FLUX.1-dev}
        targets:
          eager:
            device: cuda
            mode: eager
            components:
              text_encoder: {placement: cpu}
              text_encoder_2: {placement: cpu}
    """
    pipeline, target = case.lookup.pipeline, case.target
    if pipeline is None:
        return
    encoders = [name for name, part in pipeline.components.items() if part.role == "text_encoder"]
    for key in ("placement", "dtype"):
        values = {name: _value(case, name, key) for name in encoders}
        if len(set(values.values())) < 2:
            continue
        odd = next(
            name for name in reversed(encoders) if name in target.components and target.components[name].says(key)
        )
        others = listed(f"`{name}` {value}" for name, value in values.items() if name != odd)
        yield Hit(
            span=target.components[odd].span(key),
            message=f"the {key} of `{odd}` is {values[odd]}, and that of {others}",
            hint=f"write the same {key} for {' and '.join(f'`{name}`' for name in encoders)}",
        )


def _value(case: Case, name: str, key: str) -> str:
    said = case.target.components.get(name, Component())
    return said.placement if key == "placement" else said.dtype or case.target.model.dtype
