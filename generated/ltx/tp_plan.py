"""Tensor-parallel plans of ltx.yaml, written by planc.

`TP_PLANS[target][component]` is what diffusers calls a `_tp_plan`: module pattern to
style. Set it on the model's class before loading, or send it upstream.
"""

from typing import Any

PLAN_TP8_TRANSFORMER: dict[str, Any] = {
    "transformer_blocks.*.ff.net.0.proj": "colwise",
    "transformer_blocks.*.ff.net.2": "rowwise",
}

TP_PLANS: dict[str, dict[str, dict[str, Any]]] = {
    "tp8": {"transformer": PLAN_TP8_TRANSFORMER},
    "cpu": {"transformer": PLAN_TP8_TRANSFORMER},
}
