"""Tensor-parallel plans of flux1.yaml, written by planc.

`TP_PLANS[target][component]` is what diffusers calls a `_tp_plan`: module pattern to
style. Set it on the model's class before loading, or send it upstream.
"""

from typing import Any

from diffusers.hooks.tensor_parallel import PackedRowwiseParallel

PLAN_TP8_TRANSFORMER: dict[str, Any] = {
    "transformer_blocks.*.attn.to_q": "colwise",
    "transformer_blocks.*.attn.to_k": "colwise",
    "transformer_blocks.*.attn.to_v": "colwise",
    "transformer_blocks.*.attn.to_out.0": "rowwise",
    "transformer_blocks.*.attn.add_q_proj": "colwise",
    "transformer_blocks.*.attn.add_k_proj": "colwise",
    "transformer_blocks.*.attn.add_v_proj": "colwise",
    "transformer_blocks.*.attn.to_add_out": "rowwise",
    "transformer_blocks.*.ff.net.0.proj": "colwise",
    "transformer_blocks.*.ff.net.2": "rowwise",
    "transformer_blocks.*.ff_context.net.0.proj": "colwise",
    "transformer_blocks.*.ff_context.net.2": "rowwise",
    "single_transformer_blocks.*.attn.to_q": "colwise",
    "single_transformer_blocks.*.attn.to_k": "colwise",
    "single_transformer_blocks.*.attn.to_v": "colwise",
    "single_transformer_blocks.*.proj_mlp": "colwise",
    "single_transformer_blocks.*.proj_out": PackedRowwiseParallel(),
}

TP_PLANS: dict[str, dict[str, dict[str, Any]]] = {
    "tp8": {"transformer": PLAN_TP8_TRANSFORMER},
    "tp8-compiled": {"transformer": PLAN_TP8_TRANSFORMER},
    "cpu": {"transformer": PLAN_TP8_TRANSFORMER},
    "cpu-tp2-cp2": {"transformer": PLAN_TP8_TRANSFORMER},
}
