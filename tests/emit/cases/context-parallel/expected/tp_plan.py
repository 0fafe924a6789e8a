"""Tensor-parallel plans of plan.yaml, written by planc.

`TP_PLANS[target][component]` is what diffusers calls a `_tp_plan`: module pattern to
style. Set it on the model's class before loading, or send it upstream.
"""

from typing import Any

PLAN_BOTH_TRANSFORMER: dict[str, Any] = {
    "blocks.*.ffn.net.0.proj": "colwise",
    "blocks.*.ffn.net.2": "rowwise",
}

TP_PLANS: dict[str, dict[str, dict[str, Any]]] = {
    "both": {
        "transformer": PLAN_BOTH_TRANSFORMER,
        "transformer_2": PLAN_BOTH_TRANSFORMER,
    },
}
