"""Tensor-parallel plans of wan.yaml, written by planc.

`TP_PLANS[target][component]` is what diffusers calls a `_tp_plan`: module pattern to
style. Set it on the model's class before loading, or send it upstream.
"""

from typing import Any

PLAN_TP8_TRANSFORMER: dict[str, Any] = {
    "blocks.*.ffn.net.0.proj": "colwise",
    "blocks.*.ffn.net.2": "rowwise",
}

TP_PLANS: dict[str, dict[str, dict[str, Any]]] = {
    "tp8": {"transformer": PLAN_TP8_TRANSFORMER},
    "tp8-compiled": {"transformer": PLAN_TP8_TRANSFORMER},
    "cpu": {"transformer": PLAN_TP8_TRANSFORMER},
    "cpu-tp2-cp2": {"transformer": PLAN_TP8_TRANSFORMER},
}
