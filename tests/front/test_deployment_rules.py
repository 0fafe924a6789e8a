"""Plans on both sides of the rules about ranks, sequences, attention, machines and launches."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from planc.catalog.attention import BACKENDS, fitting
from planc.catalog.hardware import INSTANCES, Instance
from planc.diagnostics import Diagnostic, Severity

Check = Callable[..., list[Diagnostic]]
Marked = Callable[[str], list[Diagnostic]]

MODULES = {
    f"planc.rules.{name}"
    for name in ("attention", "context_parallel", "hardware", "launch", "scheduler", "splits", "tokens")
}
"""Modules whose rules are tested here."""


def model(pipeline: str, checkpoint: str) -> str:
    """The head of a plan."""
    return f"version: 1\nmodel: {{pipeline: {pipeline}, checkpoint: {checkpoint}}}\n"


KLEIN = model("Flux2KleinPipeline", "black-forest-labs/FLUX.2-klein-4B")
DEV = model("Flux2Pipeline", "black-forest-labs/FLUX.2-dev")
FLUX = model("FluxPipeline", "black-forest-labs/FLUX.1-dev")
QWEN = model("QwenImagePipeline", "Qwen/Qwen-Image")
EDIT = model("QwenImageEditPipeline", "Qwen/Qwen-Image-Edit")
WAN = model("WanPipeline", "Wan-AI/Wan2.1-T2V-14B-Diffusers")
WAN_22 = model("WanPipeline", "Wan-AI/Wan2.2-T2V-A14B-Diffusers")
LTX = model("LTXPipeline", "Lightricks/LTX-Video")
FLOAT32 = KLEIN.replace("}", ", dtype: float32}")
PADDED = "shapes: [{height: 1024, width: 1024, text_tokens: 512}]\n"


def plan(*lines: str, head: str = KLEIN, device: str = "cuda", mode: str = "eager") -> str:
    """A plan with one target that has these lines."""
    body = "".join(f"    {line}\n" for line in lines)
    return f"{head}targets:\n  t:\n    device: {device}\n    mode: {mode}\n{body}"


def context(options: str = "ulysses_degree: 2", entries: str = "class") -> str:
    """The line of a context-parallel target."""
    return f"context_parallel: {{{options}, plan: {entries}}}"


def written(entries: str, head: str = KLEIN) -> str:
    """A plan with a written-out context-parallel plan that gathers at `proj_out`."""
    return plan(context(entries=f"{{{entries}, proj_out: {{gather_dim: 1, expected_dims: 3}}}}"), head=head)


def shaped(head: str, shapes: str, options: str = "ulysses_degree: 2") -> str:
    """A context-parallel plan of these shapes."""
    return plan(context(options), head=f"{head}shapes: [{shapes}]\n")


TP8 = "tensor_parallel: {degree: 8, plan: class}"
HIDDEN = "hidden_states: {split_dim: 1, expected_dims: 3}"

FINDINGS: dict[str, list[tuple[str, str | None]]] = {
    "P202": [
        (plan("attention_backend: ⟦P202 falsh⟧"), "diffusers has no attention backend `falsh`"),
        (plan("attention_backend: ⟦P202 fa3⟧", context()), None),
        *((plan(f"attention_backend: {name}"), None) for name in ("flash", "FLASH", "_native_cudnn", "flex")),
    ],
    "P203": [
        (
            plan("attention_backend: ⟦P203 sage⟧", device="neuron"),
            "the attention backend `sage` runs on cuda, and the device is neuron",
        ),
        (
            plan("attention_backend: ⟦P203 _native_npu⟧"),
            "the attention backend `_native_npu` runs on no device of the plan format, and the device is cuda",
        ),
        (
            plan("attention_backend: ⟦P203 flash_hub⟧", device="cpu"),
            "the attention backend `flash_hub` runs on cuda, xpu, and the device is cpu",
        ),
        (
            plan("attention_backend: ⟦P203 _native_cudnn⟧", head=FLOAT32),
            "the attention backend `_native_cudnn` takes bfloat16 or float16, and the dtype is float32",
        ),
        (
            plan("attention_backend: ⟦P203 aiter_fa2_hub⟧", head=FLOAT32.replace("float32", "float16")),
            "the attention backend `aiter_fa2_hub` takes bfloat16, and the dtype is float16",
        ),
        (plan("attention_backend: ⟦P203 flash⟧", context(), device="cpu"), None),
        (plan("attention_backend: _native_flash", head=FLOAT32, device="cpu"), None),
        (plan("attention_backend: flash_hub", device="xpu"), None),
        *(
            (plan("attention_backend: native", head=FLOAT32, device=device), None)
            for device in ("cpu", "neuron", "tpu")
        ),
    ],
    "P204": [
        (
            plan("attention_backend: ⟦P204 _native_flash⟧", head=LTX),
            "the attention backend `_native_flash` takes no mask, and LTXPipeline passes one",
        ),
        (plan("attention_backend: ⟦P204 sage⟧", context(), head=QWEN + PADDED), None),
        (plan("attention_backend: sage", head=QWEN), None),
        (plan("attention_backend: sage"), None),
        (plan("attention_backend: flash_varlen", head=LTX), None),
        (plan("attention_backend: _native_cudnn", head=QWEN + PADDED), None),
    ],
    "P205": [
        (
            plan("hardware: {instance: ⟦P205 trn2.48xlrage⟧}", device="neuron"),
            "planc has no figures of the instance type `trn2.48xlrage`",
        ),
        (plan("hardware: {instance: ⟦P205 trn3.48xlarge⟧}", TP8, device="neuron"), None),
        (plan("hardware: {instance: trn2u.48xlarge}", device="neuron"), None),
        (plan("hardware: {instance: null, lnc: 2}", device="neuron"), None),
        (plan("hardware: {}"), None),
    ],
    "P206": [
        (
            plan("hardware: {instance: ⟦P206 p5.48xlarge⟧}", device="neuron"),
            "p5.48xlarge has H100s, which `device: neuron` does not run on",
        ),
        (
            plan("hardware: {instance: ⟦P206 trn2.48xlarge⟧}", TP8),
            "trn2.48xlarge has Trainium2s, which `device: cuda` does not run on",
        ),
        (
            plan("hardware: {instance: ⟦P206 trn1.32xlarge⟧}", device="neuron"),
            "trn1.32xlarge has Trainium1s, which `device: neuron` does not run on",
        ),
        (plan("hardware: {instance: ⟦P206 inf2.48xlarge⟧}", device="neuron"), None),
        (plan("hardware: {instance: ⟦P206 p4d.24xlarge⟧}", device="tpu"), None),
        (plan("hardware: {instance: inf2.48xlarge}", device="cpu"), None),
        (plan("hardware: {instance: p5.48xlarge}"), None),
    ],
    "P207": [
        (
            plan("hardware: {instance: ⟦P207 trn2.3xlarge⟧}", TP8, device="neuron"),
            "8 ranks do not fit trn2.3xlarge: it has 4 NeuronCores at LNC 2",
        ),
        (
            plan("hardware: {instance: ⟦P207 p5.48xlarge⟧}", "tensor_parallel: {degree: 12, plan: class}"),
            "12 ranks do not fit p5.48xlarge: it has 8 GPUs",
        ),
        (
            plan(
                "hardware: {instance: ⟦P207 p5.48xlarge⟧}",
                "tensor_parallel: {degree: 4, plan: class}",
                context("ulysses_degree: 3"),
                head=KLEIN + "shapes: [{height: 768, width: 768, text_tokens: 510}]\n",
            ),
            "12 ranks do not fit p5.48xlarge: it has 8 GPUs",
        ),
        (plan("hardware: {instance: trn2.3xlarge, lnc: 1}", TP8, device="neuron"), None),
        (plan("hardware: {instance: p5.48xlarge}", TP8), None),
        (plan("hardware: {instance: trn2.3xlarge}", TP8, device="cpu"), None),
    ],
    "P401": [
        (
            plan(f"⟦P401 context_parallel⟧: {context('ring_degree: 1').partition(': ')[2]}"),
            "`context_parallel` over 1 rank: ring_degree and ulysses_degree are both 1",
        ),
        (plan("⟦P401 context_parallel⟧: {plan: class, ulysses_anything: true}"), None),
        (
            plan(context("ulysses_degree: 2, rotate_method: ⟦P401 alltoall⟧")),
            "diffusers has no `rotate_method: alltoall` yet",
        ),
        (
            plan(context("ulysses_degree: 2, ring_anything: ⟦P401 true⟧")),
            "`ring_anything` needs `ring_degree` above 1 and `ulysses_degree` 1; they are 1 and 2",
        ),
        (
            plan(
                "attention_backend: flash",
                context("ring_degree: 2, ulysses_degree: 4, ulysses_anything: ⟦P401 true⟧, ring_anything: ⟦P401 true⟧"),
            ),
            None,
        ),
        (plan("attention_backend: flash", context("ring_degree: 2, ring_anything: true")), None),
        (
            plan("attention_backend: flash", context("ring_degree: 2, ulysses_degree: 2, rotate_method: allgather")),
            None,
        ),
        (plan(context("ulysses_degree: 2, ulysses_anything: true, ring_anything: false")), None),
    ],
    "P402": [
        (
            plan(context(entries="⟦P402 shipped⟧")),
            "planc ships no context-parallel plan for Flux2Transformer2DModel yet",
        ),
        (plan("context_parallel: {ulysses_degree: 2, ⟦P402 plan⟧: {}}"), "the plan splits no tensor"),
        (
            plan("context_parallel: {ulysses_degree: 2, ⟦P402 plan⟧: {proj_out: {gather_dim: 1}}}"),
            "the plan splits no tensor",
        ),
        (
            plan(f"context_parallel: {{ulysses_degree: 2, ⟦P402 plan⟧: {{'': {{{HIDDEN}}}}}}}"),
            "the plan gathers no output: each rank would keep its part of the result",
        ),
        (written(f"'': {{{HIDDEN}}}"), None),
        *((plan(context(), head=head), None) for head in (KLEIN, DEV, FLUX, WAN, WAN_22, QWEN + PADDED)),
    ],
    "P403": [
        (
            written(f"'': {{{HIDDEN}, ⟦P403 img_ids⟧: {{split_dim: 1, gather_dim: 1}}}}"),
            "`img_ids` of the model is both split and gathered",
        ),
        (written(f"'': {{{HIDDEN}, ⟦P403 img_ids⟧: {{}}}}"), "`img_ids` of the model says no `split_dim`"),
        (written(f"'': {{{HIDDEN}}}, ⟦P403 x⟧: {{split_dim: 1}}"), "`x` is a module, and says no `gather_dim`"),
        (written(f"'': {{{HIDDEN}}}, ⟦P403 norm_out⟧: {{}}"), "`norm_out` is a module, and says no `gather_dim`"),
        (
            written(f"'': {{{HIDDEN}}}, ⟦P403 norm_out⟧: {{gather_dim: 1, split_output: true}}"),
            "`norm_out` is gathered, not split: `split_output` does not fit",
        ),
        (
            written("rope: {⟦P403 '0'⟧: {split_dim: 1}}", WAN),
            "`0` of `rope` is an output's index, and `split_output` is false",
        ),
        (
            written(f"'': {{{HIDDEN}, ⟦P403 txt_ids⟧: {{split_dim: 1, split_output: true}}}}"),
            "`txt_ids` of the model is an argument's name, and `split_output` is true",
        ),
        *(
            (
                written(f"'': {{{HIDDEN}, ⟦P403 {key}⟧: {{split_dim: 1}}}}"),
                f"`{key}` of the model is neither an argument's name nor an output's index",
            )
            for key in ("a-b", "00", "²", "٣", "9999999")
        ),
        (
            plan(
                "context_parallel: {ulysses_degree: 2, plan: {'': {⟦P403 a b⟧: {split_dim: 1}}, proj_out: {gather_dim: 1}}}"
            ),
            None,
        ),
        (written("rope: {'0': {split_dim: 1, split_output: true}}", WAN), None),
    ],
    "P404": [
        (
            written("'': {⟦P404 hidden_state⟧: {split_dim: 1}}"),
            "the forward of Flux2Transformer2DModel gets no `hidden_state`",
        ),
        (
            written(f"'': {{{HIDDEN}}}, transformer_blocks.5: {{⟦P404 hidden_states⟧: {{split_dim: 1}}}}"),
            "`transformer_blocks` has 5 blocks, so there is no index 5",
        ),
        (
            written(f"'': {{{HIDDEN}}}, transformer_blocks.*.*: {{⟦P404 x⟧: {{split_dim: 1}}}}"),
            "`transformer_blocks.*.*` has 2 wildcards; a pattern takes one",
        ),
        (
            written(f"'': {{{HIDDEN}}}, ⟦P404 x_embedder.*⟧: {{gather_dim: 1}}"),
            "the wildcard of `x_embedder.*` does not stand for the blocks of a ModuleList",
        ),
        (
            plan(
                context(
                    entries=f"{{'': {{{HIDDEN}}}, proj_out: {{⟦P404 '1'⟧: {{split_dim: 1, split_output: true}}}},"
                    + " ⟦P406 norm_out⟧: {gather_dim: 1}}"
                )
            ),
            "`proj_out` has one output, so there is no index 1",
        ),
        (written(f"'': {{{HIDDEN}, img_ids: {{split_dim: 1}}, txt_ids: {{split_dim: 1}}}}"), None),
        (written("transformer_blocks.0: {hidden_states: {split_dim: 1}}", QWEN), None),
        (written("transformer_blocks.*: {encoder_hidden_states_mask: {split_dim: 1}}", QWEN + PADDED), None),
    ],
    "P405": [
        (
            written("'': {hidden_states: {split_dim: ⟦P405 3⟧}}"),
            "`hidden_states` of the model has 3 dims, so there is no dim 3",
        ),
        (
            written("'': {hidden_states: {split_dim: ⟦P405 -4⟧}}"),
            "`hidden_states` of the model has 3 dims, so there is no dim -4",
        ),
        (
            written("'': {hidden_states: {split_dim: ⟦P405 2⟧}}"),
            "dim 2 of `hidden_states` of the model is in_channels, which is no part of the sequence",
        ),
        (
            written(f"'': {{{HIDDEN}, txt_ids: {{split_dim: ⟦P405 -1⟧}}}}"),
            "dim -1 of `txt_ids` of the model is 4, which is no part of the sequence",
        ),
        (
            written("'': {hidden_states: {split_dim: 1, expected_dims: ⟦P405 2⟧}}"),
            "`hidden_states` of the model has 3 dims, not 2: it would silently be left whole",
        ),
        (
            written("rope: {'1': {split_dim: ⟦P405 0⟧, expected_dims: ⟦P405 3⟧, split_output: true}}", WAN),
            None,
        ),
        (
            plan(context(entries=f"{{'': {{{HIDDEN}}}, proj_out: {{gather_dim: ⟦P405 0⟧}}}}")),
            "dim 0 of `proj_out` is batch, which is no part of the sequence",
        ),
        (written("'': {hidden_states: {split_dim: -2}}"), None),
        (written("rope: {'0': {split_dim: 1, expected_dims: 4, split_output: true}}", WAN), None),
        (
            written("blocks.0: {hidden_states: {split_dim: 1}}, '': {timestep: {split_dim: 1, expected_dims: 2}}", WAN),
            None,
        ),
    ],
    "P406": [
        (
            written(f"'': {{{HIDDEN}}}, transformer_blocks.1: {{⟦P406 hidden_states⟧: {{split_dim: 1}}}}"),
            "the `hidden_states` of `transformer_blocks.1` was not checked",
        ),
        (
            plan(context(entries=f"{{'': {{{HIDDEN}}}, ⟦P406 proj_outt⟧: {{gather_dim: 1}}}}")),
            "the card of Flux2Transformer2DModel shows no module `proj_outt`: the entry was not checked",
        ),
        (
            written("rope: {⟦P406 '2'⟧: {split_dim: 1, split_output: true}}", WAN),
            "the `2` of `rope` was not checked",
        ),
        (plan(context(entries=f"{{'': {{{HIDDEN}}}, ⟦P406 x_embedder⟧: {{gather_dim: 1}}}}")), None),
        (written("transformer_blocks.0: {encoder_hidden_states: {split_dim: 1}}", QWEN + PADDED), None),
    ],
    "P407": [
        (
            shaped(KLEIN, "⟦P407 {height: 1008, width: 1008, text_tokens: 512}⟧"),
            "image_tokens = 3969 cannot be split over 2 ranks",
        ),
        (
            shaped(KLEIN, "{height: 1024, width: 1024, text_tokens: ⟦P407 77⟧}", "ulysses_degree: 4"),
            "text_tokens = 77 cannot be split over 4 ranks",
        ),
        (
            shaped(KLEIN, "⟦P407 {height: 1008, width: 1008, text_tokens: 77}⟧"),
            "image_tokens = 3969 and text_tokens = 77 cannot be split over 2 ranks",
        ),
        (shaped(KLEIN, "{height: 1024, width: 1024}, ⟦P407 {height: 16, width: 16}⟧"), None),
        (
            plan(
                context("ulysses_degree: ⟦P407 3⟧"),
            ),
            "image_tokens = 4096 and text_tokens = 512 cannot be split over 3 ranks"
            " at the default size of Flux2KleinPipeline",
        ),
        (
            plan("attention_backend: flash", context("ring_degree: ⟦P407 5⟧")),
            "image_tokens = 4096 and text_tokens = 512 cannot be split over 5 ranks"
            " at the default size of Flux2KleinPipeline",
        ),
        (
            shaped(
                KLEIN, "⟦P407 {height: 16, width: 32, text_tokens: 512}⟧", "ulysses_degree: 3, ulysses_anything: true"
            ),
            "image_tokens = 2 cannot be split over 3 ranks",
        ),
        (
            shaped(WAN, "⟦P407 {height: 496, width: 848, num_frames: 81}⟧"),
            "image_tokens = 34503 cannot be split over 2 ranks",
        ),
        (
            shaped(EDIT, "⟦P407 {height: 1008, width: 1008, text_tokens: 2048}⟧"),
            "image_tokens = 8065 cannot be split over 2 ranks",
        ),
        (
            plan(context("ulysses_degree: ⟦P407 2⟧"), head=QWEN),
            "the text has no fixed length that 2 ranks could split: QwenImagePipeline pads to the longest prompt only",
        ),
        (shaped(QWEN, "⟦P407 {height: 1024, width: 1024}⟧"), None),
        (shaped(QWEN, "{height: 1024, width: 1024}", "ulysses_degree: 2, ulysses_anything: true"), None),
        (shaped(QWEN, "{height: 1024, width: 1024, text_tokens: 80}, {height: 512, width: 512}"), None),
        (
            shaped(KLEIN, "{height: 1008, width: 1008, text_tokens: 77}", "ulysses_degree: 3, ulysses_anything: true"),
            None,
        ),
        (shaped(WAN, "{height: 480, width: 832, num_frames: 81, text_tokens: 77}", "ulysses_degree: 8"), None),
        (written("'': {txt_ids: {split_dim: 1}}", KLEIN + "shapes: [{height: 1008, width: 1008}]\n"), None),
        (
            shaped(
                KLEIN.replace("black-forest-labs/FLUX.2-klein-4B", "⟦P115 my/own⟧"),
                "⟦P407 {height: 1008, width: 1008}⟧",
            ),
            None,
        ),
    ],
    "P408": [
        (plan(context("ulysses_degree: ⟦P408 5⟧")), "24 attention heads cannot be split over 5 Ulysses ranks"),
        (
            plan(
                "tensor_parallel: {degree: 8, plan: {transformer_blocks.*.ff_context.linear_out: rowwise}}",
                context("ulysses_degree: 4"),
            ),
            None,
        ),
        (
            plan(TP8, context("ulysses_degree: ⟦P408 4⟧")),
            "3 attention heads that each of 8 tensor-parallel ranks has cannot be split over 4 Ulysses ranks",
        ),
        (
            plan(context("ulysses_degree: ⟦P408 7⟧, ulysses_anything: true")),
            "24 attention heads cannot be shared, padded, over 7 Ulysses ranks",
        ),
        (plan(context("ulysses_degree: 5, ulysses_anything: true")), None),
        (plan(TP8, context("ulysses_degree: 3, ulysses_anything: true")), None),
        (plan("attention_backend: flash", context("ring_degree: 2, ulysses_degree: 8")), None),
        (plan("attention_backend: flash", context("ring_degree: 64"), TP8), None),
        (plan(context("ulysses_degree: 8"), head=WAN), None),
    ],
    "P409": [
        (
            plan("attention_backend: ⟦P409 flex⟧", context()),
            "the attention backend `flex` does not work with context parallelism",
        ),
        (
            plan("attention_backend: ⟦P409 _native_flash⟧", context(), device="cpu"),
            "the attention backend `_native_flash` does not work with context parallelism on cpu",
        ),
        (
            plan(context("ring_degree: ⟦P409 2⟧")),
            "ring attention needs the log-sum-exp, which the attention backend `native` does not return",
        ),
        (plan("attention_backend: ⟦P409 native⟧", context("ring_degree: 2, ulysses_degree: 2")), None),
        (
            plan(context("ring_degree: ⟦P409 2⟧"), device="cpu"),
            "no attention backend of diffusers runs ring attention on cpu; ring_degree is 2",
        ),
        (plan(context(), device="cpu"), None),
        (plan("attention_backend: flex"), None),
        *(
            (plan(f"attention_backend: {name}", context("ring_degree: 2")), None)
            for name in fitting("cuda", "bfloat16", splits=True, with_lse=True)
        ),
        (plan("attention_backend: _native_flash", context("ring_degree: 2"), device="neuron"), None),
    ],
    "P410": [
        (
            plan("attention_backend: _native_cudnn", context("ring_degree: ⟦P410 2⟧"), head=QWEN + PADDED),
            "ring attention over 2 ranks mixes up the mask that QwenImagePipeline passes",
        ),
        (
            plan("attention_backend: flash", context("ring_degree: ⟦P410 4⟧, ring_anything: true"), head=QWEN + PADDED),
            "ring attention over 4 ranks refuses the mask that QwenImagePipeline passes",
        ),
        (plan("attention_backend: flash", context("ring_degree: 2, ring_anything: true"), head=QWEN), None),
        (plan("attention_backend: flash", context("ring_degree: 2")), None),
        (plan("attention_backend: flash_varlen_hub", context(), head=QWEN + PADDED), None),
    ],
    "P411": [
        (
            plan(context("ulysses_degree: ⟦P411 4⟧"), head=LTX),
            "LTXVideoTransformer3DModel does not work with ulysses attention over 4 ranks",
        ),
        (
            plan("attention_backend: _native_flash", context("ring_degree: ⟦P411 2⟧"), head=LTX),
            "LTXVideoTransformer3DModel does not work with ring attention over 2 ranks",
        ),
        (plan(context("ring_degree: ⟦P411 3⟧, ulysses_degree: ⟦P411 5⟧"), head=LTX), None),
        (plan(head=LTX), None),
        (plan(context(), head=WAN), None),
    ],
    "P601": [
        (
            plan("hardware: {instance: ⟦P601 trn2.48xlarge⟧}", TP8, head=DEV, device="neuron"),
            "53.7 GiB of weights do not fit the 24 GiB of one NeuronCore of trn2.48xlarge",
        ),
        (
            plan("hardware: {instance: ⟦P601 trn2.48xlarge⟧, lnc: 1}", TP8, device="neuron", head=DEV),
            "53.7 GiB of weights do not fit the 12 GiB of one NeuronCore of trn2.48xlarge",
        ),
        (
            plan("hardware: {instance: ⟦P601 p5.48xlarge⟧}", head=DEV),
            "104.9 GiB of weights do not fit the 80 GiB of one GPU of p5.48xlarge",
        ),
        (
            plan("hardware: {instance: ⟦P601 p4d.24xlarge⟧}", context("ulysses_degree: 8"), head=WAN_22),
            "64.0 GiB of weights do not fit the 40 GiB of one GPU of p4d.24xlarge",
        ),
        (plan("hardware: {instance: trn2.48xlarge}", head=WAN_22, device="cpu"), None),
        (plan("hardware: {instance: p5e.48xlarge}", head=DEV), None),
        (
            plan(
                "hardware: {instance: trn2.48xlarge}",
                TP8,
                "components: {text_encoder: {placement: cpu}}",
                head=DEV,
                device="neuron",
            ),
            None,
        ),
        (plan("hardware: {instance: trn2.48xlarge}", device="neuron"), None),
        (plan("hardware: {lnc: 2}", TP8, head=DEV, device="neuron"), None),
    ],
    "P702": [
        (plan("scheduler: {class: ⟦P702 EulerScheduler⟧}"), "diffusers has no scheduler `EulerScheduler`"),
        (
            plan("scheduler: {class: FlowMatchEulerDiscreteScheduler, config: {⟦P702 flow_shift⟧: 3.0}}"),
            "the config of FlowMatchEulerDiscreteScheduler takes no `flow_shift`",
        ),
        (plan("scheduler: {class: FlowMatchEulerDiscreteScheduler, config: {shift: 3.0}}"), None),
        (plan("scheduler: null"), None),
    ],
    "P703": [
        (
            plan("launch: {env: {⟦P703 WORLD_SIZE⟧: '8'}}", TP8),
            "`WORLD_SIZE` is torchrun's own: it sets the variable for each of 8 ranks",
        ),
        (
            plan(
                "launch: {env: {⟦P703 MASTER_ADDR⟧: x, ⟦P703 MASTER_PORT⟧: '1', ⟦P703 RANK⟧: '0', ⟦P703 LOCAL_RANK⟧: '0'}}"
            ),
            None,
        ),
        (plan("launch: {env: {OMP_NUM_THREADS: '4', NCCL_DEBUG: INFO}}"), None),
    ],
    "P704": [
        (
            plan("hardware: {lnc: 2}", "launch: {env: {NEURON_LOGICAL_NC_CONFIG: ⟦P704 '1'⟧}}", device="neuron"),
            "`NEURON_LOGICAL_NC_CONFIG` is `1` here, and `hardware.lnc` says `2`",
        ),
        (
            plan("cache_dir: /a", "launch: {env: {TORCH_NEURONX_NEFF_CACHE_DIR: ⟦P704 /b⟧}}", device="neuron"),
            "`TORCH_NEURONX_NEFF_CACHE_DIR` is `/b` here, and `cache_dir` says `/a`",
        ),
        (
            plan(
                "cache_dir: /a",
                "launch: {env: {TORCHINDUCTOR_CACHE_DIR: ⟦P704 /b⟧}}",
                head=KLEIN + PADDED,
                mode="compiled",
            ),
            None,
        ),
        (plan("hardware: {lnc: 2}", "launch: {env: {NEURON_LOGICAL_NC_CONFIG: '2'}}", device="neuron"), None),
        (plan("launch: {env: {NEURON_LOGICAL_NC_CONFIG: '1'}}", device="neuron"), None),
        (plan("cache_dir: /a", "launch: {env: {TORCHINDUCTOR_CACHE_DIR: /b}}", device="neuron"), None),
    ],
    "P705": [
        (
            plan("components: {text_encoder_2: {placement: ⟦P705 cpu⟧}}", head=FLUX),
            "the placement of `text_encoder_2` is cpu, and that of `text_encoder` device",
        ),
        (
            plan("components: {text_encoder: {dtype: ⟦P705 float32⟧}}", head=FLUX),
            "the dtype of `text_encoder` is float32, and that of `text_encoder_2` bfloat16",
        ),
        (
            plan(
                "components: {text_encoder: {placement: cpu, dtype: float32},"
                " text_encoder_2: {placement: ⟦P705 device⟧, dtype: ⟦P705 bfloat16⟧}}",
                head=FLUX,
            ),
            None,
        ),
        (
            plan(
                "components: {text_encoder: {placement: cpu, dtype: bfloat16}, text_encoder_2: {placement: cpu}}",
                head=FLUX,
            ),
            None,
        ),
        (plan("components: {text_encoder: {placement: cpu}}"), None),
        (plan("components: {vae: {placement: cpu, dtype: float32}}", head=FLUX), None),
    ],
}
"""For each rule plans that break it where marked, with the message where it matters, and plans that do not."""


@pytest.mark.parametrize(
    ("code", "text", "message"),
    [(code, text, message) for code, plans in FINDINGS.items() for text, message in plans],
    ids=[f"{code}-{number}" for code, plans in FINDINGS.items() for number in range(len(plans))],
)
def test_a_plan_gives_what_is_marked_and_nothing_else(
    marked: Marked, code: str, text: str, message: str | None
) -> None:
    """Each marked place gives its finding, no other place does, and the message is the one stated."""
    found = [item for item in marked(text) if item.code != "P115"]
    if message is not None:
        assert [item.message for item in found if item.code == code] == [message]


def test_every_rule_has_plans_on_both_sides() -> None:
    """Every rule of these modules has a plan above that breaks it and one that does not."""
    from planc.rules import RULES

    assert list(FINDINGS) == [rule.fault.code for rule in RULES if rule.check.__module__ in MODULES]
    for code, plans in FINDINGS.items():
        assert any(f"⟦{code} " in text for text, _ in plans), code
        assert any(f"⟦{code} " not in text for text, _ in plans), code


# Notes and hints


def only(found: list[Diagnostic]) -> Diagnostic:
    """The one finding."""
    assert len(found) == 1, [f"{item.code} {item.span} {item.message}" for item in found]
    return found[0]


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        (
            shaped(KLEIN, "{height: 1008, width: 1008, text_tokens: 512}"),
            "use `height` 992 or 1024, or `width` 992 or 1024",
        ),
        (
            shaped(KLEIN, "{height: 1008, width: 1008, text_tokens: 77}"),
            "use `height` 992 or 1024, or `width` 992 or 1024; and `text_tokens` 76 or 78",
        ),
        (shaped(KLEIN, "{height: 1024, width: 1024, text_tokens: 3}", "ulysses_degree: 4"), "use `text_tokens` 4"),
        (
            shaped(KLEIN, "{height: 16, width: 32, text_tokens: 512}", "ulysses_degree: 3, ulysses_anything: true"),
            "use `height` 32, or `width` 48",
        ),
        (
            shaped(WAN, "{height: 496, width: 848, num_frames: 81}"),
            "use `height` 480 or 512, or `width` 832 or 864, or `num_frames` 77 or 85",
        ),
        (
            shaped(KLEIN, "{height: 16, width: 16, text_tokens: 512}", "ulysses_degree: 2, ring_degree: 128").replace(
                "mode: eager", "mode: eager\n    attention_backend: flash"
            ),
            "use smaller degrees",
        ),
        (
            shaped(QWEN, "{height: 768, width: 768}", "ulysses_degree: 6"),
            "declare a length that 6 divides, such as `text_tokens: 516`",
        ),
        (plan(context("ulysses_degree: 4"), head=EDIT), "declare a length that 4 divides, such as `text_tokens: 2048`"),
    ],
)
def test_unsplittable_tokens_name_the_nearest_sizes(check: Check, text: str, hint: str) -> None:
    """P407 names, for each length, the nearest sizes at which the ranks can split it."""
    assert only(check(text)).hint == hint


@pytest.mark.parametrize("text", [item for item, _ in FINDINGS["P407"] if "mode: compiled" not in item][:6])
def test_the_sizes_that_a_hint_names_are_legal(check: Check, text: str) -> None:
    """Each first size of a hint of P407 mends the length that it is for."""
    plain = text.replace("⟦P407 ", "").replace("⟧", "")
    for item in check(plain):
        assert item.hint is not None
        for part in item.hint.removeprefix("use ").split("; and "):
            key, value = part.split(",")[0].replace("`", "").split()[:2]
            for old in (16, 77, 1008):
                plain = plain.replace(f"{key}: {old}", f"{key}: {value}", 1)
    assert [item.code for item in check(plain)] in ([], ["P407"])


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        (plan(context("ulysses_degree: 5")), "use 2, 3, 4, 6, 8, 12, 24"),
        (plan(context("ulysses_degree: 7, ulysses_anything: true")), "use 2, 3, 4, 5, 6, 8, 12, 24"),
        (plan(TP8, context("ulysses_degree: 2")), "use 3"),
        (
            plan("tensor_parallel: {degree: 24, plan: class}", context()).replace(
                "plan: class}\n    context", "plan: {transformer_blocks.*.attn.to_q: colwise}}\n    context"
            ),
            "leave `ulysses_degree` out: each rank has one head",
        ),
    ],
)
def test_unsplittable_heads_list_the_degrees_that_fit(check: Check, text: str, hint: str) -> None:
    """P408 lists the degrees that share the heads which tensor parallelism leaves, padded or not."""
    assert only(check(text)).hint == hint


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        (plan("attention_backend: falsh"), "did you mean `flash`?"),
        (
            plan("attention_backend: nope"),
            "use one of: native, _native_cudnn, _native_efficient, _native_flash, _native_math, flash",
        ),
        (
            plan("attention_backend: sage", device="neuron"),
            "use one of: native, _native_efficient, _native_flash, _native_math, flex",
        ),
        (
            plan("attention_backend: sage", head=FLOAT32),
            "write `dtype: bfloat16`, or leave the backend out",
        ),
        (
            plan("attention_backend: _native_flash", head=LTX),
            "use one of: native, _native_cudnn, _native_efficient, _native_math, flash_varlen, _flash_varlen_3",
        ),
        (plan("attention_backend: flex", context(), device="cpu"), "use one of: native"),
        (plan(context("ring_degree: 2"), device="neuron"), "write `attention_backend:` with one of: _native_flash"),
        (
            plan(context("ring_degree: 2"), head=FLOAT32),
            "write `dtype: bfloat16` and `attention_backend:` with one of: "
            "_native_cudnn, _native_flash, flash, sage, flash_hub, flash_varlen_hub",
        ),
        (plan(context("ring_degree: 2"), device="cpu"), "use `ulysses_degree: 2`"),
    ],
)
def test_a_wrong_backend_names_those_that_fit(check: Check, text: str, hint: str) -> None:
    """The rules about backends name backends for the device, the data type and what is asked of them."""
    assert only(check(text)).hint == hint


@pytest.mark.parametrize(
    ("lines", "device", "hint"),
    [
        (("hardware: {instance: trn2.48xlarge}", TP8), "neuron", "use `components: {text_encoder: {placement: cpu}}`"),
        (
            ("hardware: {instance: trn2.48xlarge, lnc: 1}", "tensor_parallel: {degree: 4, plan: class}"),
            "neuron",
            "use `components: {text_encoder: {placement: cpu}}` and a tensor-parallel degree of 6",
        ),
        (("hardware: {instance: trn2.48xlarge}",), "neuron", "shard the weights with `tensor_parallel`"),
        (
            (
                "hardware: {instance: p4de.24xlarge}",
                context("ulysses_degree: 4"),
                "tensor_parallel: {degree: 2, plan: {x_embedder: colwise}}",
            ),
            "cuda",
            "use `components: {text_encoder: {placement: cpu}}`",
        ),
        (
            (
                "hardware: {instance: p4d.24xlarge}",
                "components: {text_encoder: {placement: cpu}}",
                "tensor_parallel: {degree: 2, plan: {x_embedder: colwise}}",
            ),
            "cuda",
            "use a machine with more memory a rank",
        ),
    ],
)
def test_full_memory_names_the_least_change_that_fits(
    check: Check, lines: tuple[str, ...], device: str, hint: str
) -> None:
    """P601 moves text encoders to the host, or raises the degree, whichever makes the weights fit."""
    assert only(check(plan(*lines, head=DEV, device=device))).hint == hint


def test_full_memory_names_each_part(check: Check) -> None:
    """P601 says what lies on a core: the denoiser's part of a rank, and what is there whole."""
    item = only(check(plan("hardware: {instance: trn2.48xlarge}", TP8, head=DEV, device="neuron")))
    assert item.notes[0] == "on each: transformer 8.8 GiB, text_encoder 44.7 GiB, vae 0.2 GiB"
    assert item.notes[2].startswith("text_encoder: ")
    assert "UNCONFIRMED" in item.notes[2]


def test_an_unknown_instance_is_a_note_with_the_nearest_name(check: Check) -> None:
    """P205 informs: a new instance type is no fault."""
    item = only(check(plan("hardware: {instance: trn2.48xlrage}", device="neuron")))
    assert (item.severity, item.hint) == (Severity.NOTE, "did you mean `trn2.48xlarge`?")


def test_an_uncheckable_split_is_a_note_with_the_nearest_name(check: Check) -> None:
    """P406 informs: the card does not show every module."""
    text = plan(context(entries=f"{{'': {{{HIDDEN}}}, proj_outt: {{gather_dim: 1}}}}"))
    item = only(check(text))
    assert (item.severity, item.hint) == (Severity.NOTE, "did you mean `proj_out`?")


def test_a_misspelt_argument_names_the_nearest(check: Check) -> None:
    """P404 says which argument was meant, or which there are."""
    assert only(check(written("'': {hidden_state: {split_dim: 1}}"))).hint == "did you mean `hidden_states`?"
    assert only(check(written("'': {x: {split_dim: 1}}"))).hint == (
        "it gets: hidden_states, encoder_hidden_states, timestep, img_ids, txt_ids, guidance"
    )


def test_a_compiled_target_is_asked_for_its_shapes_once(check: Check) -> None:
    """What P502 asks for, P407 does not ask for too."""
    for shapes in ("", "shapes: [{height: 1024, width: 1024}]\n"):
        assert only(check(plan(context(), head=QWEN + shapes, mode="compiled"))).code == "P502"


def test_memory_and_ranks_are_not_reported_at_once(check: Check) -> None:
    """Where the ranks do not fit the machine, what they would hold is not added up."""
    found = check(plan("hardware: {instance: trn2.3xlarge}", TP8, head=DEV, device="neuron"))
    assert [item.code for item in found] == ["P207"]


# The data


@pytest.mark.parametrize("row", INSTANCES.values(), ids=INSTANCES)
def test_an_instance_says_where_it_was_seen(row: Instance) -> None:
    """Every instance and chip has its source, and gives a rank some memory at each setting."""
    assert row.source
    assert row.chip.source
    assert bool(row.chip.refusal) is (row.chip.device is None)
    for lnc in (None, 1, 2):
        assert row.units(lnc) >= row.chips
        assert row.memory(lnc, 1) >= row.memory(lnc, 2) > 0


def test_two_logical_cores_share_what_one_has_alone() -> None:
    """With one physical core a logical core, two ranks share a bank of Trainium2's memory."""
    row = INSTANCES["trn2.48xlarge"]
    assert (row.units(None), row.units(2), row.units(1)) == (64, 64, 128)
    assert (row.memory(None, 64), row.memory(1, 1), row.memory(1, 2)) == (24.0, 24.0, 12.0)


def test_backends_that_split_context_are_known_to_fit_somewhere() -> None:
    """A backend for context parallelism runs on a device of the plan format, but for Ascend's."""
    devices = ("cuda", "xpu", "neuron", "tpu", "cpu")
    lost = [row.name for row in BACKENDS.values() if not any(row.runs_on(device) for device in devices)]
    assert lost == ["_native_npu", "_native_xla"]
