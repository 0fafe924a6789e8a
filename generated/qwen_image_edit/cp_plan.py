"""Context-parallel plans of qwen-image-edit.yaml, written by planc.

`CP_PLANS[target][component]` is what diffusers calls a `_cp_plan`: module to the
tensors that are split, or to what is gathered. Pass it to `enable_parallelism`.
"""

from typing import Any

from diffusers.models._modeling_parallel import (
    ContextParallelInput,
    ContextParallelOutput,
)

PLAN_CUDA_CP4_TRANSFORMER: dict[str, Any] = {
    "transformer_blocks.0": {
        "hidden_states": ContextParallelInput(split_dim=1, expected_dims=3),
        "encoder_hidden_states": ContextParallelInput(split_dim=1, expected_dims=3),
    },
    "transformer_blocks.*": {
        "modulate_index": ContextParallelInput(split_dim=1, expected_dims=2),
        "encoder_hidden_states_mask": ContextParallelInput(
            split_dim=1,
            expected_dims=2,
        ),
    },
    "pos_embed": {
        0: ContextParallelInput(split_dim=0, expected_dims=2, split_output=True),
        1: ContextParallelInput(split_dim=0, expected_dims=2, split_output=True),
    },
    "proj_out": ContextParallelOutput(gather_dim=1, expected_dims=3),
}

CP_PLANS: dict[str, dict[str, dict[str, Any]]] = {
    "cuda-cp4": {"transformer": PLAN_CUDA_CP4_TRANSFORMER},
    "cpu-cp2": {"transformer": PLAN_CUDA_CP4_TRANSFORMER},
    "cpu-tp2-cp2": {"transformer": PLAN_CUDA_CP4_TRANSFORMER},
}
