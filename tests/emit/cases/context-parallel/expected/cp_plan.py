"""Context-parallel plans of plan.yaml, written by planc.

`CP_PLANS[target][component]` is what diffusers calls a `_cp_plan`: module to the
tensors that are split, or to what is gathered. Pass it to `enable_parallelism`.
"""

from typing import Any

from diffusers.models._modeling_parallel import (
    ContextParallelInput,
    ContextParallelOutput,
)

PLAN_WRITTEN_TRANSFORMER: dict[str, Any] = {
    "rope": {
        0: ContextParallelInput(split_dim=1, expected_dims=4, split_output=True),
        1: ContextParallelInput(split_dim=1, expected_dims=4, split_output=True),
    },
    "blocks.0": {"hidden_states": ContextParallelInput(split_dim=1, expected_dims=3)},
    "proj_out": ContextParallelOutput(gather_dim=1, expected_dims=3),
}

PLAN_BOTH_TRANSFORMER: dict[str, Any] = {
    "rope": {
        0: ContextParallelInput(split_dim=1, expected_dims=4, split_output=True),
        1: ContextParallelInput(split_dim=1, expected_dims=4, split_output=True),
    },
    "blocks.0": {"hidden_states": ContextParallelInput(split_dim=1, expected_dims=3)},
    "proj_out": ContextParallelOutput(gather_dim=1, expected_dims=3),
    "": {"timestep": ContextParallelInput(split_dim=1, expected_dims=2)},
}

CP_PLANS: dict[str, dict[str, dict[str, Any]]] = {
    "written": {
        "transformer": PLAN_WRITTEN_TRANSFORMER,
        "transformer_2": PLAN_WRITTEN_TRANSFORMER,
    },
    "both": {
        "transformer": PLAN_BOTH_TRANSFORMER,
        "transformer_2": PLAN_BOTH_TRANSFORMER,
    },
}
