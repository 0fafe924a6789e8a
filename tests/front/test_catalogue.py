"""Every kind of finding: its documentation, its own examples, and hand-written plans on both sides of each rule."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from planc import pipeline
from planc.diagnostics import Diagnostic, Fault, Severity
from planc.report.explanation import MARK, SECTIONS, markdown, sections, summary, text

Check = Callable[..., list[Diagnostic]]
Marked = Callable[[str], list[Diagnostic]]

FAULTS = pipeline.faults()
WITHOUT_EXAMPLE = {
    "P001": "is about a file that cannot be read",
    "P002": "is about bytes, which no docstring can hold",
    "P003": "an empty plan has no line to mark",
    "P005": "would need a megabyte",
    "P006": "would need 33 brackets on one line",
    "P802": "is about a file on disk",
    "P803": "is about a file on disk",
}
"""Faults whose documentation shows no example, and why."""


ELSEWHERE = {
    f"planc.rules.{name}"
    for name in ("attention", "context_parallel", "hardware", "launch", "scheduler", "splits", "tokens")
}
"""Modules whose rules have their plans in `test_deployment_rules.py`."""


def by_code(fault: Fault) -> str:
    """The name of a parametrized test."""
    return fault.code


def only(found: list[Diagnostic]) -> Diagnostic:
    """The one finding."""
    assert len(found) == 1, [f"{item.code} {item.span} {item.message}" for item in found]
    return found[0]


# What holds of every fault


def test_codes_are_unique_and_in_order() -> None:
    """No two faults share a code, and the catalogue is in order of code."""
    codes = [fault.code for fault in FAULTS]
    assert codes == sorted(set(codes))


def test_names_are_unique() -> None:
    """No two faults share a name."""
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)


@pytest.mark.parametrize("fault", FAULTS, ids=by_code)
def test_a_code_is_in_a_range_and_a_name_in_kebab_case(fault: Fault) -> None:
    """A code is P and three digits of a known range; a name is small words with dashes."""
    assert re.fullmatch(r"P[0-9]\d\d", fault.code)
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", fault.name)


@pytest.mark.parametrize("fault", FAULTS, ids=by_code)
def test_the_documentation_has_its_sections(fault: Fault) -> None:
    """Every fault says what it does and why that is bad, and shows an example or is listed as having none."""
    found = sections(fault)
    expected = SECTIONS[:2] if fault.code in WITHOUT_EXAMPLE else SECTIONS
    assert tuple(found) == expected
    assert all(body.strip() for body in found.values())
    assert all(found[name].rstrip().endswith(".") for name in SECTIONS[:2])


def test_faults_listed_without_example_exist() -> None:
    """The list of faults without an example names no fault that is not there."""
    assert set(WITHOUT_EXAMPLE) <= {fault.code for fault in FAULTS}


@pytest.mark.parametrize("fault", FAULTS, ids=by_code)
def test_the_documentation_reads_well(fault: Fault) -> None:
    """The summary is one line without a full stop, and no page shows the mark of the tests."""
    line = summary(fault)
    assert line
    assert "\n" not in line
    assert not line.endswith((".", ":"))
    assert line.count("`") % 2 == 0
    for page in (text(fault), markdown(fault)):
        assert fault.code in page
        assert fault.name in page
        assert "# error:" not in page


WITH_EXAMPLE = [fault for fault in FAULTS if fault.code not in WITHOUT_EXAMPLE]


@pytest.mark.parametrize("fault", WITH_EXAMPLE, ids=by_code)
def test_the_example_gives_the_fault_on_the_marked_lines(check: Check, fault: Fault) -> None:
    """The example of a fault gives exactly that fault, with its severity and name, on exactly the marked lines."""
    example = sections(fault)["Example"]
    expected = [
        (mark[1], number) for number, line in enumerate(example.splitlines(), 1) for mark in MARK.finditer(line)
    ]
    assert expected
    found = check(example)
    assert [(item.code, item.span.line) for item in found] == expected
    assert {(item.code, item.name, item.severity) for item in found} == {(fault.code, fault.name, fault.severity)}


@pytest.mark.parametrize("fault", WITH_EXAMPLE, ids=by_code)
def test_what_to_use_instead_gives_nothing(check: Check, fault: Fault) -> None:
    """The mended example has no findings at all."""
    assert check(sections(fault)["Use instead"]) == []


@pytest.mark.parametrize("fault", WITH_EXAMPLE, ids=by_code)
def test_each_finding_says_what_and_where(check: Check, fault: Fault) -> None:
    """A finding of an example has a message that starts no sentence, without a full stop, and a span on one place."""
    for item in check(sections(fault)["Example"]):
        assert item.message
        assert not item.message.endswith(".")
        assert "\n" not in item.message
        assert (item.span.line, item.span.column) <= (item.span.end_line, item.span.end_column)


# Plans on both sides of each rule

KLEIN = "version: 1\nmodel: {pipeline: Flux2KleinPipeline, checkpoint: black-forest-labs/FLUX.2-klein-4B}\n"
KLEIN_9B = KLEIN.replace("4B", "9B")
DEV = "version: 1\nmodel: {pipeline: Flux2Pipeline, checkpoint: black-forest-labs/FLUX.2-dev}\n"
WAN = "version: 1\nmodel: {pipeline: WanPipeline, checkpoint: Wan-AI/Wan2.1-T2V-14B-Diffusers}\n"
LTX = "version: 1\nmodel: {pipeline: LTXPipeline, checkpoint: Lightricks/LTX-Video}\n"
EDIT = "version: 1\nmodel: {pipeline: QwenImageEditPipeline, checkpoint: Qwen/Qwen-Image-Edit}\n"
UNKNOWN = "version: 1\nmodel: {pipeline: Flux2KleinPipeline, checkpoint: ⟦P115 my-org/my-finetune⟧}\n"
SHAPES = "shapes: [{height: 1024, width: 1024, text_tokens: 512}]\n"
TAIL = "targets: {t: {device: cuda, mode: eager}}\n"


def eager(*lines: str, head: str = KLEIN, device: str = "cuda") -> str:
    """A plan with one eager target that has these lines."""
    body = "".join(f"    {line}\n" for line in lines)
    return f"{head}targets:\n  t:\n    device: {device}\n    mode: eager\n{body}"


def compiled(*lines: str, head: str = KLEIN + SHAPES, device: str = "cuda", mode: str = "compiled") -> str:
    """A plan with one compiled target that has these lines."""
    body = "".join(f"    {line}\n" for line in lines)
    return f"{head}targets:\n  t:\n    device: {device}\n    mode: {mode}\n{body}"


def parallel(entry: str, degree: int = 2, head: str = KLEIN) -> str:
    """A plan with one written-out tensor-parallel plan of one entry."""
    return eager(f"tensor_parallel: {{degree: {degree}, plan: {{{entry}}}}}", head=head)


FINDINGS: dict[str, list[tuple[str, str | None]]] = {
    "P110": [
        (
            KLEIN.replace("Flux2KleinPipeline", "⟦P110 PixArtPipeline⟧") + TAIL,
            "no card knows the pipeline `PixArtPipeline`",
        ),
        (
            "version: 1\nmodel: {checkpoint: ⟦P110 my/own⟧}\n" + TAIL,
            "no card knows the checkpoint `my/own`, and the plan names no pipeline",
        ),
        (
            "version: 1\nmodel: {checkpoint: ⟦P110 my/own⟧, pipeline: null}\n" + TAIL,
            "no card knows the checkpoint `my/own`, and the plan names no pipeline",
        ),
        ("version: 1\nmodel: {checkpoint: black-forest-labs/FLUX.2-klein-4B}\n" + TAIL, None),
        ("version: 1\nmodel: {checkpoint: black-forest-labs/FLUX.2-dev, pipeline: null}\n" + TAIL, None),
    ],
    "P111": [
        (
            KLEIN.replace("Flux2KleinPipeline", "⟦P111 Flux2Pipeline⟧") + TAIL,
            "`black-forest-labs/FLUX.2-klein-4B` is a Flux2KleinPipeline, not a Flux2Pipeline",
        ),
        (
            eager("model: {checkpoint: black-forest-labs/FLUX.2-dev}").replace(
                "pipeline: Flux2KleinPipeline", "pipeline: ⟦P111 Flux2KleinPipeline⟧"
            ),
            "`black-forest-labs/FLUX.2-dev` is a Flux2Pipeline, not a Flux2KleinPipeline",
        ),
        (DEV + TAIL, None),
    ],
    "P112": [
        (
            KLEIN + "call: {⟦P112 prompts⟧: x}\n" + TAIL,
            "`prompts` is not a keyword that a plan passes to Flux2KleinPipeline",
        ),
        (eager("call: {⟦P112 height⟧: 64, ⟦P112 generator⟧: 1, ⟦P112 true_cfg⟧: 1}"), None),
        (KLEIN + "call: {prompt: x, num_inference_steps: 4, guidance_scale: 1.0, sigmas: [1.0]}\n" + TAIL, None),
    ],
    "P113": [
        (KLEIN + "call: {prompt: ⟦P113 7⟧}\n" + TAIL, "`prompt` is `7`, and takes text"),
        (
            KLEIN + "call: {num_inference_steps: ⟦P113 4.0⟧}\n" + TAIL,
            "`num_inference_steps` is `4.0`, and takes a whole number",
        ),
        (
            KLEIN + "call: {num_inference_steps: ⟦P113 0⟧}\n" + TAIL,
            "`num_inference_steps` is 0, and must be at least 1",
        ),
        (
            KLEIN + "call: {num_inference_steps: ⟦P113 -3⟧}\n" + TAIL,
            "`num_inference_steps` is -3, and must be at least 1",
        ),
        (KLEIN + "call: {num_inference_steps: ⟦P113 true⟧}\n" + TAIL, None),
        (KLEIN + "call: {guidance_scale: ⟦P113 false⟧}\n" + TAIL, None),
        (KLEIN + "call: {guidance_scale: ⟦P113 'high'⟧}\n" + TAIL, "`guidance_scale` is `high`, and takes a number"),
        (KLEIN + "call: {sigmas: ⟦P113 0.5⟧}\n" + TAIL, "`sigmas` is `0.5`, and takes a list of numbers"),
        (KLEIN + "call: {sigmas: ⟦P113 []⟧}\n" + TAIL, None),
        (KLEIN + "call: {sigmas: ⟦P113 [1, a]⟧}\n" + TAIL, None),
        (KLEIN + "call: {sigmas: ⟦P113 [1, true]⟧}\n" + TAIL, None),
        (KLEIN + "call: {sigmas: ⟦P113 [1, [2]]⟧}\n" + TAIL, None),
        (KLEIN + "call: {text_encoder_out_layers: ⟦P113 [1.5]⟧}\n" + TAIL, None),
        (KLEIN + "call: {prompt: ⟦P113 {a: b}⟧}\n" + TAIL, None),
        (EDIT + "call: {image: ⟦P113 3⟧}\n" + TAIL, "`image` is `3`, and takes the path of an image"),
        (EDIT + "call: {image: cat.png}\n" + TAIL, None),
        (KLEIN + "call: {guidance_scale: 3, sigmas: [1, 0.5], text_encoder_out_layers: [9, 18]}\n" + TAIL, None),
    ],
    "P114": [
        (eager("components: {⟦P114 vea⟧: {placement: cpu}}"), "Flux2KleinPipeline has no module `vea`"),
        (eager("components: {⟦P114 tokenizer⟧: {placement: cpu}}"), None),
        (eager("components: {⟦P114 scheduler⟧: {dtype: float32}}"), None),
        (KLEIN + "components: {⟦P114 unet⟧: {placement: cpu}}\n" + TAIL, None),
        (eager("components: {text_encoder: {placement: cpu}, vae: {dtype: float32, tiling: true}}"), None),
    ],
    "P115": [
        (UNKNOWN + TAIL, None),
        (parallel("transformer_blocks.99.attn.to_q: colwise", degree=7, head=UNKNOWN), None),
        (DEV + TAIL, None),
    ],
    "P201": [
        (eager("⟦P201 compile⟧: {}"), "`compile` has no effect with `mode: eager`"),
        (eager("⟦P201 compile⟧: {scope: full}"), None),
        (eager("compile: null"), None),
        (eager("⟦P201 cache_dir⟧: /x"), "`cache_dir` has no effect: nothing is compiled in eager mode on cuda"),
        (
            eager("⟦P201 cache_dir⟧: /x", device="cpu"),
            "`cache_dir` has no effect: nothing is compiled in eager mode on cpu",
        ),
        (eager("cache_dir: /x", device="neuron"), None),
        (eager("cache_dir: /x", "components: {vae: {compile: {}}}"), None),
        (compiled("cache_dir: /x"), None),
        (eager("hardware: {⟦P201 lnc⟧: 2}"), "`lnc` has no effect on cuda: it is a setting of NeuronCores"),
        (eager("hardware: {lnc: null, instance: p5.48xlarge}"), None),
        (eager("hardware: {lnc: 2}", device="neuron"), None),
        (eager("launch: {⟦P201 timeout⟧: 60}"), "`timeout` has no effect: a single process has no process group"),
        (eager("launch: {timeout: null, env: {A: b}}"), None),
        (eager("launch: {timeout: 60}", "tensor_parallel: {degree: 2, plan: class}"), None),
        (
            eager("components: {text_encoder: {⟦P201 tiling⟧: false}}"),
            "`tiling` has no effect: `text_encoder` is no VAE",
        ),
        (
            eager("components: {text_encoder: {⟦P201 slicing⟧: true}}"),
            "`slicing` has no effect: `text_encoder` is no VAE",
        ),
        (eager("components: {vae: {tiling: true, slicing: false}, text_encoder: {tiling: null}}"), None),
        (
            KLEIN + "shapes: [{height: 64, width: 64, ⟦P201 num_frames⟧: 9}]\n" + TAIL,
            "`num_frames` has no effect: Flux2KleinPipeline makes images",
        ),
        (
            eager("context_parallel: {ulysses_degree: 2, plan: class, ⟦P201 convert_to_fp32⟧: true}"),
            "`convert_to_fp32` has no effect: only ring attention merges partial results, and ring_degree is 1",
        ),
        (
            eager(
                "attention_backend: _native_cudnn",
                "context_parallel: {ring_degree: 2, plan: class, convert_to_fp32: false}",
            ),
            None,
        ),
        (KLEIN + "shapes: [{height: 64, width: 64, num_frames: null}]\n" + TAIL, None),
        (
            KLEIN
            + SHAPES
            + "targets:\n  a: {device: cuda, mode: compiled, ⟦P201 compile⟧: {scope: full}}\n"
            + "  b: {extends: a, mode: eager}\n",
            "`compile` has no effect with `mode: eager`",
        ),
    ],
    "P301": [
        (
            eager("tensor_parallel: {degree: ⟦P301 5⟧, plan: class}"),
            "24 attention heads cannot be split over 5 ranks",
        ),
        (
            eager("tensor_parallel: {degree: ⟦P301 24⟧, plan: class}", head=KLEIN_9B),
            "32 attention heads cannot be split over 24 ranks",
        ),
        (
            eager("tensor_parallel: {degree: ⟦P301 48⟧, plan: {x_embedder: colwise}}"),
            "24 attention heads cannot be split over 48 ranks",
        ),
        *((eager(f"tensor_parallel: {{degree: {degree}, plan: class}}"), None) for degree in (2, 3, 4, 6, 8, 12, 24)),
        *(
            (eager(f"tensor_parallel: {{degree: {degree}, plan: class}}", head=KLEIN_9B), None)
            for degree in (2, 4, 8, 16, 32)
        ),
        *((eager(f"tensor_parallel: {{degree: {degree}, plan: class}}", head=DEV), None) for degree in (3, 16, 48)),
        (eager("tensor_parallel: {degree: 5, plan: class}", head=UNKNOWN), None),
    ],
    "P302": [
        (
            parallel("proj_out: ⟦P302 colwise⟧", 3),
            "128 output features of `proj_out` cannot be split over 3 ranks",
        ),
        (
            parallel("x_embedder: ⟦P302 rowwise⟧", 12, DEV),
            "128 input features of `x_embedder` cannot be split over 12 ranks",
        ),
        (
            parallel("transformer_blocks.*.attn.to_q: ⟦P302 {style: packed_colwise, blocks: [1, 255]}⟧", 32, KLEIN_9B),
            "16 output features of `transformer_blocks.*.attn.to_q` cannot be split over 32 ranks",
        ),
        (parallel("transformer_blocks.*.attn.to_q: {style: packed_colwise, blocks: [1, 255]}", 16, KLEIN_9B), None),
        (
            parallel(
                "single_transformer_blocks.*.attn.to_out: ⟦P302 {style: packed_rowwise, blocks: [1, 1023]}⟧",
                32,
                KLEIN_9B,
            ),
            "16 input features of `single_transformer_blocks.*.attn.to_out` cannot be split over 32 ranks",
        ),
        (parallel("single_transformer_blocks.*.attn.to_qkv_mlp_proj: packed_colwise", 32, KLEIN_9B), None),
        (parallel("proj_out: colwise, x_embedder: rowwise", 32, KLEIN_9B), None),
        (parallel("proj_out: colwise", 3, UNKNOWN), None),
        (parallel("x_embedder: colwise", 3), None),
    ],
    "P303": [
        (
            parallel("⟦P303 transformer_blocks.5.attn.to_q⟧: colwise"),
            "`transformer_blocks` has 5 blocks, so there is no index 5",
        ),
        (
            parallel("⟦P303 single_transformer_blocks.24.attn.to_out⟧: packed_rowwise", head=KLEIN_9B),
            "`single_transformer_blocks` has 24 blocks, so there is no index 24",
        ),
        (parallel("transformer_blocks.5.attn.to_q: colwise", head=KLEIN_9B), None),
        (parallel("transformer_blocks.4.attn.to_q: colwise, transformer_blocks.0.attn.to_out.0: rowwise"), None),
        (
            parallel("⟦P303 time_guidance_embed.guidance_embedder.linear_1⟧: colwise"),
            "`time_guidance_embed.guidance_embedder.linear_1` names no Linear of this checkpoint",
        ),
        (parallel("time_guidance_embed.guidance_embedder.linear_1: colwise", head=DEV), None),
        (parallel("time_guidance_embed.guidance_embedder.linear_1: colwise", head=UNKNOWN), None),
        (
            parallel("⟦P303 transformer_blocks.*.attn.to_qq⟧: colwise", head=UNKNOWN),
            "`transformer_blocks.*.attn.to_qq` names no Linear of Flux2Transformer2DModel",
        ),
        *(
            (parallel(f"⟦P303 {pattern}⟧: colwise"), None)
            for pattern in (
                "transformer_blocks",
                "transformer_blocks.*",
                "transformer_blocks.*.attn",
                "transformer_blocks.*.",
                "transformer_blocks.*.attn.to_q.weight",
                "transformer_blocks.*.attn.to_out.1",
                "transformer_blocks.0.attn.to_out.*",
                "transformer_blocks.-1.attn.to_q",
                "transformer_blocks.00.attn.to_q",
                "transformer_blocks.01.attn.to_q",
                "transformer_blocks.².attn.to_q",
                "transformer_blocks.٣.attn.to_q",
                "single_transformer_blocks.*.attn.to_out.0",
                "norm_out",
                "''",
            )
        ),
        (parallel(f"? ⟦P303 transformer_blocks.{'9' * 5000}.attn.to_q⟧ : colwise"), None),
    ],
    "P304": [
        (
            parallel("⟦P304 transformer_blocks.*.attn.to_out.*⟧: colwise"),
            "`transformer_blocks.*.attn.to_out.*` has 2 wildcards; a pattern takes one",
        ),
        (parallel("⟦P304 '*.*.*'⟧: colwise"), "`*.*.*` has 3 wildcards; a pattern takes one"),
        (parallel("⟦P304 '**'⟧: colwise"), None),
        (
            parallel("⟦P304 x_embedder.*⟧: colwise"),
            "the wildcard of `x_embedder.*` does not stand for the blocks of a ModuleList",
        ),
        *(
            (parallel(f"⟦P304 {pattern}⟧: colwise", head=head), None)
            for head in (KLEIN, UNKNOWN)
            for pattern in (
                "blocks*",
                "transformer_blocks*.attn.to_q",
                "transformer_blocks.*x.attn.to_q",
                "transformer_blocks.x*.attn.to_q",
                "transformer_blocks.0.*.to_q",
                "'*'",
                "'*.attn.to_q'",
                "blocks.*.attn.to_q",
            )
        ),
        (parallel("transformer_blocks.*.attn.to_out.0: rowwise"), None),
        (parallel("x_embedder: colwise"), None),
    ],
    "P305": [
        (
            parallel("transformer_blocks.*.ff.linear_in: ⟦P305 packed_colwise⟧"),
            "`packed_colwise` needs blocks: `transformer_blocks.*.ff.linear_in` has no `_tp_packed_col_blocks`",
        ),
        (
            parallel("transformer_blocks.*.ff.linear_in: ⟦P305 {style: packed_colwise}⟧"),
            "`packed_colwise` needs blocks: `transformer_blocks.*.ff.linear_in` has no `_tp_packed_col_blocks`",
        ),
        (
            parallel("single_transformer_blocks.*.attn.to_qkv_mlp_proj: ⟦P305 packed_rowwise⟧"),
            "`packed_rowwise` needs blocks: "
            "`single_transformer_blocks.*.attn.to_qkv_mlp_proj` has no `_tp_packed_row_blocks`",
        ),
        (
            parallel("transformer_blocks.*.ff.linear_in: ⟦P305 {style: packed_colwise, blocks: [5, 1, 1]}⟧"),
            "blocks [5, 1, 1] add up to 7, "
            "which does not divide the 18432 features of `transformer_blocks.*.ff.linear_in`",
        ),
        (
            parallel("transformer_blocks.0.ff.linear_out: ⟦P305 {style: packed_rowwise, blocks: [1, 4]}⟧", head=DEV),
            "blocks [1, 4] add up to 5, "
            "which does not divide the 18432 features of `transformer_blocks.0.ff.linear_out`",
        ),
        (
            parallel("x_embedder: ⟦P305 {style: colwise, blocks: [1, 1]}⟧"),
            "`colwise` cuts the whole dim and takes no blocks",
        ),
        (
            parallel("x_embedder: ⟦P305 {style: rowwise, blocks: [1]}⟧", head=UNKNOWN),
            "`rowwise` cuts the whole dim and takes no blocks",
        ),
        (parallel("transformer_blocks.*.ff.linear_in: ⟦P305 packed_colwise⟧", head=UNKNOWN), None),
        (parallel("x_embedder: {style: colwise}"), None),
        (parallel("transformer_blocks.*.ff.linear_in: {style: packed_colwise, blocks: [1, 1]}"), None),
        (parallel("single_transformer_blocks.*.attn.to_out: packed_rowwise"), None),
        (parallel("single_transformer_blocks.3.attn.to_qkv_mlp_proj: {style: packed_colwise}"), None),
    ],
    "P306": [
        (
            parallel("⟦P306 blocks.*.attn1.to_q⟧: colwise", head=WAN),
            "no style may cut `blocks.*.attn1.to_q`",
        ),
        (parallel("⟦P306 blocks.3.attn2.to_out.0⟧: rowwise", head=WAN), None),
        (parallel("blocks.*.ffn.net.0.proj: colwise, blocks.*.ffn.net.2: rowwise", head=WAN), None),
        (parallel("transformer_blocks.*.attn.to_q: colwise"), None),
    ],
    "P307": [
        (
            parallel("⟦P307 transformer_blocks.1.attn.to_q⟧: colwise, transformer_blocks.*.attn.to_q: rowwise"),
            "`transformer_blocks.1.attn.to_q` is planned twice: `transformer_blocks.*.attn.to_q` names it too",
        ),
        (
            parallel(
                "transformer_blocks.*.attn.to_q: colwise, ⟦P307 transformer_blocks.9.attn.to_q⟧: colwise", head=UNKNOWN
            ),
            None,
        ),
        (parallel("transformer_blocks.1.attn.to_q: colwise, transformer_blocks.2.attn.to_q: colwise"), None),
        (parallel("transformer_blocks.*.attn.to_k: colwise, transformer_blocks.2.attn.to_q: colwise"), None),
    ],
    "P501": [
        (
            compiled("compile: {dynamic: ⟦P501 true⟧}", "cache_dir: /var/x", device="neuron"),
            "neuron compiles static shapes only; dynamic is true and must be false",
        ),
        (eager("cache_dir: /var/x", "components: {vae: {compile: {dynamic: ⟦P501 true⟧}}}", device="neuron"), None),
        (compiled("compile: {dynamic: true}", head=KLEIN), None),
        (compiled("compile: {dynamic: null}", "cache_dir: /var/x", device="neuron"), None),
    ],
    "P502": [
        (
            compiled(head=KLEIN, mode="⟦P502 compiled⟧"),
            "compiled mode without `shapes`: no input of the model has a fixed shape",
        ),
        (compiled(head=KLEIN + "shapes: []\n", mode="⟦P502 compiled⟧"), None),
        (
            compiled(head=KLEIN + "shapes: [⟦P502 {height: 64, width: 64}⟧]\n"),
            "the shape does not fix `encoder_hidden_states`, `txt_ids`: `text_tokens` is missing",
        ),
        (
            compiled(
                head=KLEIN
                + "shapes: [{height: 64, width: 64, text_tokens: 8}, ⟦P502 {height: 64, width: 64}⟧,"
                + " ⟦P502 {height: 64, width: 64, text_tokens: null}⟧]\n"
            ),
            None,
        ),
        (
            compiled(head=WAN + "shapes: [⟦P502 {height: 480, width: 832, text_tokens: 512}⟧]\n"),
            "the shape does not fix `hidden_states`: `num_frames` is missing",
        ),
        (
            compiled(head=WAN + "shapes: [⟦P502 {height: 480, width: 832}⟧]\n"),
            "the shape does not fix `hidden_states`, `encoder_hidden_states`: "
            "`num_frames` and `text_tokens` are missing",
        ),
        (compiled(head=WAN + "shapes: [{height: 480, width: 832, num_frames: 81, text_tokens: 512}]\n"), None),
        (compiled(head=KLEIN + "shapes:\n  - ⟦P502 ⟧height: 64\n    width: 64\n"), None),
        (compiled(head=UNKNOWN + "shapes: [⟦P502 {height: 64, width: 64}⟧]\n"), None),
        (compiled(head=UNKNOWN + SHAPES), None),
        (compiled("compile: {dynamic: true}", head=KLEIN), None),
        (eager(head=KLEIN + "shapes: [{height: 64, width: 64}]\n"), None),
        (eager(), None),
        (
            KLEIN
            + "targets:\n  a: {device: cuda, mode: eager}\n"
            + "  b: {extends: a, mode: ⟦P502 compiled⟧}\n  c: {extends: b}\n",
            None,
        ),
    ],
    "P503": [
        (
            KLEIN + "shapes: [{height: ⟦P503 1000⟧, width: 1024}]\n" + TAIL,
            "a height of 1000 is no multiple of 16",
        ),
        (KLEIN + "shapes: [{height: 1024, width: ⟦P503 7⟧}]\n" + TAIL, "a width of 7 is no multiple of 16"),
        (KLEIN + "shapes: [{height: ⟦P503 17⟧, width: ⟦P503 15⟧}]\n" + TAIL, None),
        (DEV + "shapes: [{height: 16, width: 16}, {height: 1040, width: 4096}]\n" + TAIL, None),
    ],
    "P504": [
        (
            eager("components: {vae: {compile: {scope: ⟦P504 repeated_blocks⟧}}}"),
            "AutoencoderKLFlux2 has no `_repeated_blocks` to compile",
        ),
        (compiled("compile: {scope: repeated_blocks}"), None),
        (compiled("components: {vae: {compile: {scope: full}}}"), None),
        (eager("components: {vae: {compile: {scope: null}}}"), None),
    ],
    "P505": [
        (eager("components: {vae: {⟦P505 compile⟧: {scope: full}}}", device="neuron"), None),
        (
            compiled(device="neuron", mode="⟦P505 compiled⟧"),
            "compiled graphs are lost at the next reboot: there is no `cache_dir`",
        ),
        (compiled("cache_dir: null", device="neuron", mode="⟦P505 compiled⟧"), None),
        *(
            (
                compiled(f"cache_dir: ⟦P505 {folder}⟧", device="neuron"),
                f"compiled graphs are lost at the next reboot: `{lost}` is temporary",
            )
            for folder, lost in (
                ("/tmp", "/tmp"),
                ("/tmp/", "/tmp"),
                ("/tmp/x", "/tmp"),
                ("/tmp/x/y", "/tmp"),
                ("/var/tmp", "/var/tmp"),
                ("/var/tmp/x", "/var/tmp"),
                ("/dev/shm/x", "/dev/shm"),
                ("/run/x", "/run"),
                ("/var/run/x", "/var/run"),
                ("//tmp/x", "/tmp"),
                ("/tmp/./x", "/tmp"),
                ("/var/lib/../tmp/x", "/var/tmp"),
            )
        ),
        *(
            (compiled(f"cache_dir: {folder}", device="neuron"), None)
            for folder in (
                "/var/lib/neff",
                "/tmpx",
                "/var/tmpx",
                "/mnt/tmp/x",
                "tmp/x",
                "neff",
                "./tmp",
                "/tmp/../var/lib/x",
            )
        ),
        (compiled("cache_dir: /tmp/x"), None),
        (compiled(), None),
        (eager(device="neuron"), None),
    ],
    "P506": [
        (
            compiled("compile: {mode: max-autotune, ⟦P506 options⟧: {a: true}}"),
            "`compile` has the mode `max-autotune` and options; torch takes one or the other",
        ),
        (compiled("components: {vae: {compile: {mode: default, ⟦P506 options⟧: {a: 1}}}}"), None),
        (compiled("compile: {mode: max-autotune, options: {}}"), None),
        (compiled("compile: {options: {a: true}}"), None),
        (compiled("compile: {mode: max-autotune}"), None),
    ],
    "P507": [
        (
            WAN + "shapes: [{height: 480, width: 832, num_frames: ⟦P507 80⟧}]\n" + TAIL,
            "80 frames are not one more than a multiple of 4",
        ),
        (
            WAN
            + "shapes: [{height: 480, width: 832, num_frames: ⟦P507 2⟧}, {height: 480, width: 832, num_frames: ⟦P507 84⟧}]\n"
            + TAIL,
            None,
        ),
        (
            LTX + "shapes: [{height: 512, width: 704, num_frames: ⟦P507 85⟧}]\n" + TAIL,
            "85 frames are not one more than a multiple of 8",
        ),
        (
            WAN
            + "shapes: [{height: 480, width: 832, num_frames: 1}, {height: 480, width: 832, num_frames: 85}, {height: 480, width: 832}]\n"
            + TAIL,
            None,
        ),
    ],
    "P508": [
        (
            compiled("compile: {⟦P508 mode⟧: max-autotune}", "cache_dir: /var/x", device="neuron"),
            "the compile backend `neuron` takes no `mode`",
        ),
        (compiled("compile: {⟦P508 options⟧: {a: 1}}", device="tpu"), "the compile backend `tpu` takes no `options`"),
        (compiled("components: {vae: {compile: {⟦P508 mode⟧: max-autotune}}}", device="tpu"), None),
        (compiled("compile: {mode: default}", "cache_dir: /var/x", device="neuron"), None),
        (compiled("compile: {backend: inductor, mode: max-autotune}", device="tpu"), None),
        (compiled("compile: {mode: max-autotune}", device="xpu"), None),
    ],
    "P701": [
        (
            eager("launch: {env: {⟦P701 MY-VAR⟧: x}}"),
            "`MY-VAR` cannot name an environment variable",
        ),
        (eager("launch: {env: {⟦P701 1A⟧: x, ⟦P701 ''⟧: x, ⟦P701 'A B'⟧: x, ⟦P701 A=B⟧: x, ⟦P701 Ä⟧: x}}"), None),
        (eager('launch: {env: {⟦P701 "A\\n"⟧: x}}'), None),
        (eager('launch: {env: {A: ⟦P701 "x\\0y"⟧}}'), "the value of `A` holds a NUL character"),
        (eager('launch: {env: {A: "", _b1: "x\\ny", NEURON_RT_NUM_CORES: "8"}}'), None),
    ],
    "P801": [
        (eager("launch: {nnodes: ⟦P801 2⟧}"), "planc writes scripts for one machine; nnodes is 2"),
        (
            eager("tensor_parallel: {degree: 2, plan: ⟦P801 shipped⟧}"),
            "planc ships no tensor-parallel plan for this class yet",
        ),
        *(
            (
                eager(f"tensor_parallel: {{degree: 2, plan: class, ⟦P801 {key}⟧: {value}}}"),
                f"planc cannot emit `{key}` yet",
            )
            for key, value in (
                ("divided_attributes", "[a.*.heads]"),
                ("spanning_norms", "[a.norm]"),
                ("sharded_parameters", "[]"),
                ("sliced_arguments", "{a: {b: {dim: 1}}}"),
            )
        ),
        (parallel("norm_out.linear: ⟦P801 colwise_gathered⟧"), "planc cannot emit `colwise_gathered` yet"),
        (parallel("norm_out.linear: ⟦P801 {style: colwise_gathered}⟧"), None),
        (
            eager("components: {⟦P801 transformer⟧: {dtype: float32}}"),
            "planc cannot emit `components.transformer` yet: it is what the target's own fields are about",
        ),
        (
            eager("components: {vae: {⟦P801 tensor_parallel⟧: {plan: class}}}"),
            "planc cannot emit `tensor_parallel of vae` yet",
        ),
        (
            eager("components: {text_encoder: {⟦P801 compile⟧: {}}}"),
            "planc cannot emit `compile` of text_encoder: its forward does not compile in one graph",
        ),
        (
            eager(
                "launch: {nnodes: 1}",
                "tensor_parallel: {degree: 2, plan: class, divided_attributes: null, spanning_norms: null}",
                "components: {vae: {compile: {}, tensor_parallel: null}}",
            ),
            None,
        ),
        (eager("context_parallel: {ulysses_degree: 2, plan: class}", "attention_backend: native"), None),
        (eager(device="xpu"), None),
        (eager(device="tpu"), None),
    ],
}
"""For each rule plans that break it where marked, with the message where it matters, and plans that do not."""


@pytest.mark.parametrize(
    ("code", "plan", "message"),
    [(code, plan, message) for code, plans in FINDINGS.items() for plan, message in plans],
    ids=[f"{code}-{number}" for code, plans in FINDINGS.items() for number in range(len(plans))],
)
def test_a_plan_gives_what_is_marked_and_nothing_else(
    marked: Marked, code: str, plan: str, message: str | None
) -> None:
    """Each marked place gives its finding, no other place does, and the message is the one stated."""
    found = [item for item in marked(plan) if item.severity is not Severity.NOTE]
    assert {item.code for item in found} <= {code}
    if message is not None:
        assert only(found).message == message


def test_every_rule_has_plans_on_both_sides() -> None:
    """Every rule of these modules has a plan above that breaks it and one that does not."""
    from planc.rules import RULES

    assert list(FINDINGS) == [rule.fault.code for rule in RULES if rule.check.__module__ not in ELSEWHERE]
    for code, plans in FINDINGS.items():
        assert any(f"⟦{code} " in plan for plan, _ in plans), code
        assert any(f"⟦{code} " not in plan for plan, _ in plans), code


# Notes and hints


def test_indivisible_heads_lists_the_divisors(check: Check) -> None:
    """P301 says where the heads come from and which degrees there are."""
    item = only(check(eager("tensor_parallel: {degree: 5, plan: class}")))
    assert item.label == "degree of the tensor-parallel axis"
    assert item.notes == ("Flux2Transformer2DModel of black-forest-labs/FLUX.2-klein-4B has num_attention_heads = 24",)
    assert item.hint == "use a divisor of 24: 2, 3, 4, 6, 8, 12, 24"


@pytest.mark.parametrize(
    ("plan", "label", "note", "hint"),
    [
        (
            parallel("proj_out: colwise", 3),
            "the cut dim",
            "it is a Linear of 3072 input and 128 output features",
            "use a degree of 2, 4, 8",
        ),
        (
            parallel("transformer_blocks.*.attn.to_q: {style: packed_colwise, blocks: [1, 255]}", 32, KLEIN_9B),
            "one of its fused blocks",
            "it is a Linear of 4096 input and 4096 output features",
            "use a degree of 2, 4, 8, 16",
        ),
        (
            parallel("transformer_blocks.*.attn.to_q: {style: packed_colwise, blocks: [1, 3071]}"),
            "one of its fused blocks",
            "it is a Linear of 3072 input and 3072 output features",
            "leave `transformer_blocks.*.attn.to_q` out of the plan",
        ),
    ],
)
def test_an_indivisible_block_says_which_degrees_fit(check: Check, plan: str, label: str, note: str, hint: str) -> None:
    """P302 says the Linear's size and the degrees that divide all its blocks and the heads, or to leave it out."""
    item = only(check(plan))
    assert (item.label, item.hint) == (label, hint)
    assert item.notes[0].endswith(note)


@pytest.mark.parametrize(
    ("entry", "hint"),
    [
        ("transformer_blocks.5.attn.to_q", "use an index from 0 to 4, or `*` for all"),
        ("transformer_blocks.*.attn.to_qq", "did you mean `transformer_blocks.*.attn.to_q`?"),
        ("time_guidance_embed.guidance_embedder.linear_1", "leave it out of the plan"),
        ("lm_head", "`planc models` lists the Linears of every class it knows"),
    ],
)
def test_an_unmatched_pattern_says_what_to_write(check: Check, entry: str, hint: str) -> None:
    """P303 names the indices there are, the Linear that was meant, or where to look."""
    assert only(check(parallel(f"{entry}: colwise"))).hint == hint


def test_a_misplaced_wildcard_lists_the_lists_it_may_stand_for(check: Check) -> None:
    """P304 names the ModuleLists of the class."""
    item = only(check(parallel("x_embedder.*: colwise")))
    assert item.notes == ("ModuleLists of Flux2Transformer2DModel: transformer_blocks, single_transformer_blocks",)


@pytest.mark.parametrize(
    ("size", "hint"),
    [("1000", "use 992 or 1008"), ("7", "use 16"), ("17", "use 16 or 32"), ("1039", "use 1024 or 1040")],
)
def test_a_misaligned_size_names_the_nearest_ones(check: Check, size: str, hint: str) -> None:
    """P503 names the multiples on both sides, and never zero."""
    item = only(check(KLEIN + f"shapes: [{{height: {size}, width: 64}}]\n" + TAIL))
    assert item.hint == hint
    assert "vae_scale_factor" in item.notes[0]


def test_an_unfixed_shape_shows_the_open_inputs(check: Check) -> None:
    """P502 shows the shape of each input that stays open."""
    item = only(check(compiled(head=KLEIN + "shapes: [{height: 64, width: 64}]\n")))
    assert item.notes == (
        "encoder_hidden_states is [batch, text_tokens, joint_attention_dim]",
        "txt_ids is [batch, text_tokens, 4]",
    )


@pytest.mark.parametrize(
    ("keyword", "hint"),
    [
        ("num_inference_step", "did you mean `num_inference_steps`?"),
        ("height", "say sizes in `shapes`; the script has --height"),
        ("max_sequence_length", "say it as `text_tokens` in `shapes`"),
        ("generator", "say `seed`; the script has --seed"),
        ("xyz", "known here: prompt, num_inference_steps, guidance_scale, sigmas, text_encoder_out_layers"),
    ],
)
def test_an_unknown_keyword_says_where_a_plan_says_it(check: Check, keyword: str, hint: str) -> None:
    """P112 tells a keyword that the script passes itself from a misspelt one."""
    assert only(check(KLEIN + f"call: {{{keyword}: 1}}\n" + TAIL)).hint == hint


def test_values_are_shown_as_a_plan_writes_them(check: Check) -> None:
    """A message shows true, not True, and a list, not a tuple."""
    assert only(check(KLEIN + "call: {prompt: true}\n" + TAIL)).message == "`prompt` is `true`, and takes text"
    message = only(check(KLEIN + "call: {sigmas: [1, a]}\n" + TAIL)).message
    assert message.startswith(("`sigmas` is `[1, a]`", '`sigmas` is `[1, "a"]`', "`sigmas` is `[1, 'a']`"))


def test_all_rules_report_at_once(marked: Marked) -> None:
    """Faults of several rules in several targets come in one run, in order of place."""
    found = marked(
        KLEIN
        + "call: {⟦P112 steps⟧: 1, prompt: ⟦P113 7⟧}\nshapes: [⟦P502 {height: ⟦P503 1000⟧, width: 1024}⟧]\ntargets:\n"
        + "  a: {device: cuda, mode: compiled, tensor_parallel: {degree: ⟦P301 7⟧, plan: class}}\n"
        + "  b: {device: neuron, mode: ⟦P505 compiled⟧, launch: {env: {⟦P701 a-b⟧: x}}}\n"
    )
    assert [item.span for item in found] == sorted(item.span for item in found)


def test_a_target_that_extends_another_repeats_no_finding(marked: Marked) -> None:
    """What one target broke is said once, however many targets start from it."""
    marked(
        KLEIN
        + "call: {⟦P112 steps⟧: 1}\nshapes: [⟦P502 {height: ⟦P503 1000⟧, width: 1024}⟧]\ntargets:\n"
        + "  a: {device: cuda, mode: compiled, tensor_parallel: {degree: ⟦P301 7⟧, plan: class},\n"
        + "      scheduler: {class: ⟦P702 S⟧}}\n"
        + "  b: {extends: a}\n  c: {extends: b, launch: {timeout: 5}}\n"
    )


def test_an_unknown_checkpoint_is_noted_once(marked: Marked) -> None:
    """The note on the plan's checkpoint is not repeated for each target."""
    item = only(marked(UNKNOWN + "targets:\n  a: {device: cuda, mode: eager}\n  b: {extends: a}\n"))
    assert item.severity is Severity.NOTE
    assert "my-org/my-finetune/transformer/config.json" in item.message


# Local folders

CONFIG: dict[str, Any] = {
    "_class_name": "Flux2Transformer2DModel",
    "patch_size": 1,
    "in_channels": 128,
    "num_layers": 3,
    "num_single_layers": 20,
    "attention_head_dim": 128,
    "num_attention_heads": 6,
    "joint_attention_dim": 7680,
    "timestep_guidance_channels": 256,
    "mlp_ratio": 3.0,
    "axes_dims_rope": [32, 32, 32, 32],
    "guidance_embeds": False,
}

Folder = Callable[..., Path]


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """Write a local checkpoint folder from the text or data of its index and its transformer's config."""

    def write(config: Any = None, index: Any = None) -> Path:
        path = tmp_path / "model"
        (path / "transformer").mkdir(parents=True)
        for file, data in (("transformer/config.json", config), ("model_index.json", index)):
            if data is not None:
                (path / file).write_text(data if isinstance(data, str) else json.dumps(data), encoding="utf-8")
        return path

    return write


def of_folder(path: Path, *lines: str, pipeline: str = "Flux2KleinPipeline") -> str:
    """An eager plan of a local folder."""
    said = f"pipeline: {pipeline}, " if pipeline else ""
    return eager(*lines, head=f"version: 1\nmodel: {{{said}checkpoint: {path}}}\n")


def test_the_config_of_a_local_folder_is_read(folder: Folder, check: Check) -> None:
    """A folder whose transformer/config.json has all numbers gives no note, and the rules use them."""
    path = folder(CONFIG)
    assert check(of_folder(path)) == []
    assert check(of_folder(path, "tensor_parallel: {degree: 3, plan: class}")) == []
    item = only(check(of_folder(path, "tensor_parallel: {degree: 4, plan: class}")))
    assert (item.code, item.span.line, item.span.column) == ("P301", 7, 31)
    assert item.message == "6 attention heads cannot be split over 4 ranks"
    assert item.notes == (f"Flux2Transformer2DModel of {path} has num_attention_heads = 6",)
    item = only(check(of_folder(path, "tensor_parallel: {degree: 2, plan: {transformer_blocks.3.attn.to_q: colwise}}")))
    assert (item.code, item.message) == ("P303", "`transformer_blocks` has 3 blocks, so there is no index 3")


def test_the_index_of_a_local_folder_names_the_pipeline(folder: Folder, check: Check) -> None:
    """A folder with a model_index.json needs no pipeline in the plan."""
    path = folder(CONFIG, {"_class_name": "Flux2KleinPipeline"})
    assert check(of_folder(path, pipeline="")) == []
    item = only(check(of_folder(path, "call: {nope: 1}", pipeline="")))
    assert "Flux2KleinPipeline" in item.message


def test_a_local_folder_of_another_pipeline_is_a_mismatch(folder: Folder, check: Check) -> None:
    """P111 holds the plan's pipeline against the folder's model_index.json."""
    path = folder(CONFIG, {"_class_name": "Flux2Pipeline"})
    item = only(check(of_folder(path)))
    assert (item.code, item.span.line, item.span.column) == ("P111", 2, 19)
    assert item.message == f"`{path}` is a Flux2Pipeline, not a Flux2KleinPipeline"
    assert item.hint == "write `pipeline: Flux2Pipeline`"


def test_a_local_folder_of_an_unknown_pipeline_is_reported(folder: Folder, check: Check) -> None:
    """P110 stands at the checkpoint where its folder names a pipeline that no card knows."""
    path = folder(CONFIG, {"_class_name": "StableDiffusionPipeline"})
    item = only(check(of_folder(path, pipeline="")))
    assert (item.code, item.span.line, item.span.column) == ("P110", 2, 21)
    assert item.message == "no card knows the pipeline `StableDiffusionPipeline`"


@pytest.mark.parametrize(
    "index", ["", "[]", "{", "7", '{"_class_name": 5}', '{"_class_name": ["a", "b"]}', "[" * 100_000]
)
def test_an_unusable_index_is_as_good_as_none(folder: Folder, check: Check, index: str) -> None:
    """A model_index.json that names no pipeline neither contradicts the plan nor raises."""
    path = folder(CONFIG, index)
    assert check(of_folder(path)) == []
    assert [item.code for item in check(of_folder(path, pipeline=""))] == ["P110"]


@pytest.mark.parametrize("lacking", ["num_layers", "num_attention_heads", "mlp_ratio", "guidance_embeds"])
def test_a_config_that_lacks_a_number_is_noted(folder: Folder, check: Check, lacking: str) -> None:
    """P115 names what the folder's config lacks."""
    path = folder({key: item for key, item in CONFIG.items() if key != lacking})
    item = only(check(of_folder(path, "tensor_parallel: {degree: 5, plan: class}")))
    assert (item.code, item.severity) == ("P115", Severity.NOTE)
    assert item.message.endswith(f"/transformer/config.json lacks {lacking}")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *((key, value) for key in ("num_layers", "num_attention_heads") for value in (None, "5", 5.5, [5], 1e999, -1)),
        ("num_attention_heads", 0),
        ("num_attention_heads", 24.5),
        ("num_attention_heads", 10**7),
        ("attention_head_dim", 0),
        ("guidance_embeds", None),
        ("guidance_embeds", "no"),
        ("mlp_ratio", 1e999),
        ("mlp_ratio", 2.6),
        ("mlp_ratio", float("nan")),
        ("in_channels", 10**400),
    ],
)
def test_a_config_with_odd_values_is_noted(folder: Folder, check: Check, key: str, value: Any) -> None:
    """Whatever stands in a folder's config, the rules do not raise: numbers that no model has count as not known."""
    path = folder({**CONFIG, key: value})
    for plan in (
        "plan: class",
        "plan: {transformer_blocks.1.attn.to_q: colwise}",
        "plan: {time_guidance_embed.guidance_embedder.linear_1: colwise}",
    ):
        found = check(of_folder(path, f"tensor_parallel: {{degree: 3, {plan}}}"))
        assert [item.code for item in found] == ["P115"]


@pytest.mark.parametrize("config", ["", "[]", "{", "7", "null", "[" * 100_000])
def test_a_config_that_is_no_object_is_noted(folder: Folder, check: Check, config: str) -> None:
    """A config.json that cannot be read is P115, not a crash."""
    assert [item.code for item in check(of_folder(folder(config)))] == ["P115"]


def test_no_folder_and_no_card_is_noted_with_where_was_looked(marked: Marked) -> None:
    """P115 says which file would have had the numbers."""
    item = only(marked(UNKNOWN + TAIL))
    assert item.message == (
        "the config of `my-org/my-finetune` is not known: "
        "no card knows it, and there is no my-org/my-finetune/transformer/config.json to read"
    )
    assert item.notes
