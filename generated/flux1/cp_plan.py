"""Context-parallel plans of flux1.yaml, written by planc.

`CP_PLANS[target][component]` is what diffusers calls a `_cp_plan`: module to the
tensors that are split, or to what is gathered. Pass it to `enable_parallelism`.
"""

from typing import Any

from diffusers.models._modeling_parallel import (
    ContextParallelInput,
    ContextParallelOutput,
)

PLAN_CUDA_CP4_TRANSFORMER: dict[str, Any] = {
    "": {
        "hidden_states": ContextParallelInput(split_dim=1, expected_dims=3),
        "encoder_hidden_states": ContextParallelInput(split_dim=1, expected_dims=3),
        "img_ids": ContextParallelInput(split_dim=0, expected_dims=2),
        "txt_ids": ContextParallelInput(split_dim=0, expected_dims=2),
    },
    "proj_out": ContextParallelOutput(gather_dim=1, expected_dims=3),
}

CP_PLANS: dict[str, dict[str, dict[str, Any]]] = {
    "cuda-cp4": {"transformer": PLAN_CUDA_CP4_TRANSFORMER},
    "cpu-cp2": {"transformer": PLAN_CUDA_CP4_TRANSFORMER},
    "cpu-tp2-cp2": {"transformer": PLAN_CUDA_CP4_TRANSFORMER},
}
