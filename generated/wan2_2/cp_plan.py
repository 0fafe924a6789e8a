"""Context-parallel plans of wan2-2.yaml, written by planc.

`CP_PLANS[target][component]` is what diffusers calls a `_cp_plan`: module to the
tensors that are split, or to what is gathered. Pass it to `enable_parallelism`.
"""

from typing import Any

from diffusers.models._modeling_parallel import (
    ContextParallelInput,
    ContextParallelOutput,
)

PLAN_CUDA_CP8_TRANSFORMER: dict[str, Any] = {
    "rope": {
        0: ContextParallelInput(split_dim=1, expected_dims=4, split_output=True),
        1: ContextParallelInput(split_dim=1, expected_dims=4, split_output=True),
    },
    "blocks.0": {"hidden_states": ContextParallelInput(split_dim=1, expected_dims=3)},
    "proj_out": ContextParallelOutput(gather_dim=1, expected_dims=3),
    "": {"timestep": ContextParallelInput(split_dim=1, expected_dims=2)},
}

CP_PLANS: dict[str, dict[str, dict[str, Any]]] = {
    "cuda-cp8": {
        "transformer": PLAN_CUDA_CP8_TRANSFORMER,
        "transformer_2": PLAN_CUDA_CP8_TRANSFORMER,
    },
    "cpu": {
        "transformer": PLAN_CUDA_CP8_TRANSFORMER,
        "transformer_2": PLAN_CUDA_CP8_TRANSFORMER,
    },
}
