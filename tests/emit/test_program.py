"""Plan → Program: every default filled in, every byte counted, and the line that each value came from."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from planc import ir
from planc.diagnostics import Diagnostic, Span
from planc.ir import Program, Record, ShardEntry
from planc.report import program as report

Resolve = Callable[..., Program]
Check = Callable[..., list[Diagnostic]]

KLEIN = "black-forest-labs/FLUX.2-klein-4B"
DEV = "black-forest-labs/FLUX.2-dev"
HEAD = f"version: 1\nmodel: {{pipeline: Flux2KleinPipeline, checkpoint: {KLEIN}}}\n"

SHORTEST = f"""
version: 1
model: {{checkpoint: {KLEIN}}}
targets:
  eager: {{device: cuda, mode: eager}}
"""

SMALL = """\
version: 1
model:
  pipeline: Flux2KleinPipeline
  checkpoint: black-forest-labs/FLUX.2-klein-4B
call:
  prompt: a lighthouse
  num_inference_steps: 4
seed: 7
shapes:
  - {height: 1024, width: 768, text_tokens: 512}
components:
  vae: {tiling: true}
targets:
  base:
    device: cuda
    mode: eager
  tp:
    extends: base
    mode: compiled
    model: {dtype: float16}
    call: {num_inference_steps: 8}
    compile: {dynamic: null, options: {triton.cudagraphs: true}}
    components: {vae: {dtype: float32}}
    tensor_parallel:
      degree: 2
      plan:
        x_embedder: colwise
    launch: {timeout: 60, env: {A: b}}
"""
SMALL_SHOWN = """\
plan.tp:
  module: "tp"
  device: "cuda"                                                  # plan.yaml:15:13
  mode: "compiled"                                                # plan.yaml:19:11
  instance: null                                                  # default
  model:
    pipeline: "Flux2KleinPipeline"                                # plan.yaml:3:13
    transformer: "Flux2Transformer2DModel"
    checkpoint: "black-forest-labs/FLUX.2-klein-4B"               # plan.yaml:4:15
    revision: null                                                # default
    variant: null                                                 # default
    use_safetensors: null                                         # default
    dtype: "float16"                                              # plan.yaml:20:20
  call:
    - name: "prompt"
      kind: "text"
      value: "a lighthouse"                                       # plan.yaml:6:11
    - name: "num_inference_steps"
      kind: "integer"
      value: 8                                                    # plan.yaml:21:33
  seed: 7                                                         # plan.yaml:8:7
  shapes:
    - height: 1024                                                # plan.yaml:10:14
      width: 768                                                  # plan.yaml:10:27
      num_frames: null                                            # default
      text_tokens: 512                                            # plan.yaml:10:45
      batch: 1                                                    # default
  shapes_are_declared: true
  compile:
    - component: "transformer"
      entry: "forward"
      scope: "full"                                               # default
      backend: "inductor"                                         # default
      fullgraph: true                                             # default
      dynamic: false                                              # default
      mode: null                                                  # default
      options: [["triton.cudagraphs", true]]                      # plan.yaml:22:39
  mesh: [["tp", 2]]
  tensor_parallel:
    - component: "transformer"
      degree: 2                                                   # plan.yaml:25:15
      is_class_plan: false                                        # plan.yaml:27:9
      entries:
        - x_embedder: colwise                                     # plan.yaml:27:21
      sharded_bytes: 393216
      whole_bytes: 7750302720
  context_parallel: []
  attention_backend: null                                         # default
  scheduler: null
  output: "images"
  fps: null
  batch_keyword: "num_images_per_prompt"
  components:
    - name: "text_encoder"
      role: "text_encoder"
      on_host: false                                              # default
      dtype: "float16"                                            # default
      tiling: false                                               # default
      slicing: false                                              # default
    - name: "vae"
      role: "vae"
      on_host: false                                              # default
      dtype: "float32"                                            # plan.yaml:23:31
      tiling: true                                                # plan.yaml:12:17
      slicing: false                                              # default
  denoisers: ["transformer"]
  text:
    length_keyword: "max_sequence_length"
    encode: "encode_prompt"
    encode_takes_length: true
    encode_keywords: ["text_encoder_out_layers"]
    encode_constants: []
    returns: ["prompt_embeds"]
    mask: null
    negative: "always"
    image_area: null
    image_size_function: ""
    is_encoded_first: false
    is_padded: false
  launch:
    world_size: 2
    timeout: 60                                                   # plan.yaml:28:23
    env: [["A", "b"]]                                             # plan.yaml:28:32
"""


def test_the_shortest_plan_has_every_default(resolve: Resolve) -> None:
    """A plan that says only what it must is resolved to the documented defaults, and claims no line for any of them."""
    (target,) = resolve(SHORTEST).targets
    assert (target.name, target.module, target.device, target.mode) == ("eager", "eager", "cuda", "eager")
    assert target.model == ir.Model(
        pipeline="Flux2KleinPipeline",
        transformer="Flux2Transformer2DModel",
        checkpoint=KLEIN,
        revision=None,
        variant=None,
        use_safetensors=None,
        dtype="bfloat16",
    )
    assert (target.instance, target.call, target.seed) == (None, (), 0)
    assert target.shapes == (ir.Shape(height=1024, width=1024, num_frames=None, text_tokens=512, batch=1),)
    assert not target.shapes_are_declared
    assert (target.compile, target.tensor_parallel, target.is_parallel) == ((), (), False)
    assert target.components == tuple(
        ir.Component(name=name, role=name, on_host=False, dtype="bfloat16", tiling=False, slicing=False)
        for name in ("text_encoder", "vae")
    )
    assert target.denoisers == ("transformer",)
    assert not target.text.is_encoded_first
    assert target.launch == ir.Launch(world_size=1, timeout=3600, env=())
    assert set(target.origins) == {"device", "mode"}
    assert [key for record in records(target)[1:] for key in record.origins] == ["checkpoint"]


@pytest.mark.parametrize(("device", "backend"), [("cuda", "inductor"), ("cpu", "inductor"), ("neuron", "neuron")])
def test_compiling_has_the_defaults_of_its_device(device: str, backend: str, resolve: Resolve) -> None:
    """Compiled mode without more means full graphs of static shapes on the device's own backend."""
    text = HEAD + "shapes: [{height: 1024, width: 1024, text_tokens: 512}]\ntargets:\n"
    (target,) = resolve(text + f"  t: {{device: {device}, mode: compiled, cache_dir: /var/x}}\n").targets
    assert target.compile == (
        ir.Compile(
            component="transformer",
            entry="forward",
            scope="full",
            backend=backend,
            fullgraph=True,
            dynamic=False,
            mode=None,
            options=(),
        ),
    )


def test_null_restores_a_default(resolve: Resolve) -> None:
    """A null laid over a value of the plan, or of the target that is extended, gives the default back, without origin."""
    text = HEAD + (
        "seed: 7\nshapes: [{height: 512, width: 512, text_tokens: 64}]\ntargets:\n"
        "  a: {device: cuda, mode: compiled, compile: {scope: repeated_blocks}, launch: {env: {A: b}}}\n"
        "  b: {extends: a, seed: null, shapes: [{height: 512, width: 512, text_tokens: 64, batch: null}],"
        " compile: {scope: null}, launch: null, model: {dtype: null}}\n"
    )
    _, target = resolve(text).targets
    assert (target.seed, target.shapes[0].batch, target.compile[0].scope) == (0, 1, "full")
    assert (target.launch.env, target.model.dtype) == ((), "bfloat16")
    assert "seed" not in target.origins
    assert "scope" not in target.compile[0].origins


def test_environment_is_sorted_and_says_a_variable_once(resolve: Resolve) -> None:
    """Variables come sorted; one that `launch.env` says itself, as `lnc` does, is there once."""
    text = HEAD + (
        "targets:\n  t:\n    device: neuron\n    mode: eager\n    hardware: {lnc: 1}\n    cache_dir: /var/a\n"
        '    launch: {env: {ZETA: "1", NEURON_LOGICAL_NC_CONFIG: "1", ALPHA: "0"}}\n'
    )
    (target,) = resolve(text).targets
    assert target.launch.env == (
        ("ALPHA", "0"),
        ("NEURON_LOGICAL_NC_CONFIG", "1"),
        ("TORCH_NEURONX_NEFF_CACHE_DIR", "/var/a"),
        ("ZETA", "1"),
    )


@pytest.mark.parametrize(
    ("components", "is_first"),
    [
        ("{}", False),
        ("{vae: {dtype: float32}}", False),
        ("{text_encoder: {dtype: bfloat16}}", False),
        ("{text_encoder: {placement: cpu}}", True),
        ("{text_encoder: {dtype: float32}}", True),
    ],
)
def test_the_text_is_encoded_first_where_its_encoder_differs(components: str, is_first: bool, resolve: Resolve) -> None:
    """The script encodes before the call exactly where the text encoder has another place or data type."""
    text = HEAD + f"components: {components}\ntargets:\n  t: {{device: cuda, mode: eager}}\n"
    (target,) = resolve(text).targets
    assert target.text.is_encoded_first is is_first


def covered_parameters(root: Path, sizes: dict[str, int], entries: dict[str, str]) -> int:
    """Parameters in the planned Linears, from the card's file by plain arithmetic, independently of planc's own."""
    path = root / "planc/catalog/cards/Flux2Transformer2DModel.inventory.json"
    total = 0
    for linear in json.loads(path.read_text())["linears"]:
        if linear["pattern"] in entries:
            count, rows, columns = (
                eval(linear[key], {"__builtins__": {}}, dict(sizes)) for key in ("count", "out_features", "in_features")
            )
            assert linear["bias"] == "0", "the arithmetic here knows no bias"
            total += count * rows * columns
    return total


def _sizes(layers: int, single_layers: int, heads: int) -> dict[str, int]:
    inner = heads * 128
    return {"num_layers": layers, "num_single_layers": single_layers, "inner_dim": inner, "mlp_dim": 3 * inner}


@pytest.mark.parametrize(
    ("checkpoint", "sizes", "covered", "parameters"),
    [
        (KLEIN, _sizes(5, 20, 24), 3_680_501_760, 3_875_544_576),
        (DEV, _sizes(8, 48, 48), 31_406_948_352, 32_223_281_152),
    ],
)
@pytest.mark.parametrize(("dtype", "item"), [("bfloat16", 2), ("float32", 4)])
def test_the_bytes_of_a_rank_add_up(
    checkpoint: str,
    sizes: dict[str, int],
    covered: int,
    parameters: int,
    dtype: str,
    item: int,
    resolve: Resolve,
    root: Path,
) -> None:
    """What a rank holds of the class's plan is the covered parameters over the degree, and all else whole."""
    inventory = json.loads((root / "planc/catalog/cards/Flux2Transformer2DModel.inventory.json").read_text())
    plan = {entry["pattern"]: entry["style"] for entry in inventory["tp_plan"]}
    assert covered_parameters(root, sizes, plan) == covered
    for degree in (2, 8):
        text = f"version: 1\nmodel: {{checkpoint: {checkpoint}, dtype: {dtype}}}\ntargets:\n  t: {{device: cuda, "
        (target,) = resolve(text + f"mode: eager, tensor_parallel: {{degree: {degree}, plan: class}}}}\n").targets
        (part,) = target.tensor_parallel
        assert part.is_class_plan
        assert [entry.pattern for entry in part.entries] == list(plan)
        assert part.sharded_bytes == covered // degree * item
        assert part.whole_bytes == (parameters - covered) * item
        assert target.launch.world_size == degree


def test_klein_at_degree_8_holds_under_a_gigabyte_a_rank(resolve: Resolve) -> None:
    """The numbers that the script of FLUX.2 klein 4B tells at degree 8 are 920125440 and 390085632 bytes."""
    text = HEAD + "targets:\n  t: {device: cuda, mode: eager, tensor_parallel: {degree: 8, plan: class}}\n"
    (part,) = resolve(text).targets[0].tensor_parallel
    assert (part.sharded_bytes, part.whole_bytes) == (920_125_440, 390_085_632)


def written(plan: str) -> str:
    """The text of a plan with this tensor-parallel plan at degree 2."""
    return HEAD + f"targets:\n  t: {{device: cuda, mode: eager, tensor_parallel: {{degree: 2, plan: {plan}}}}}\n"


@pytest.mark.parametrize(
    ("plan", "covered"),
    [
        ("{x_embedder: colwise}", 3072 * 128),
        ("{transformer_blocks.*.attn.to_q: colwise}", 5 * 3072 * 3072),
        ("{transformer_blocks.3.attn.to_q: colwise}", 3072 * 3072),
        ("{transformer_blocks.*.ff.linear_in: {style: packed_colwise, blocks: [1, 1]}}", 5 * 3072 * 18432),
        ("{single_transformer_blocks.*.attn.to_out: packed_rowwise}", 20 * 12288 * 3072),
    ],
)
def test_the_bytes_of_a_written_out_plan_add_up(plan: str, covered: int, resolve: Resolve) -> None:
    """A written-out plan's bytes are those of the Linears it names, a single block's where it names one."""
    (part,) = resolve(written(plan)).targets[0].tensor_parallel
    assert not part.is_class_plan
    assert part.sharded_bytes == covered // 2 * 2
    assert part.whole_bytes == (3_875_544_576 - covered) * 2


def test_a_linear_that_two_entries_name_is_not_counted_twice(check: Check, resolve: Resolve) -> None:
    """Two entries that name one Linear are refused, or that Linear's bytes count once."""
    plan = "{transformer_blocks.*.attn.to_q: colwise, transformer_blocks.0.attn.to_q: colwise}"
    if any(item.severity.value == "error" for item in check(written(plan))):
        return
    (part,) = resolve(written(plan)).targets[0].tensor_parallel
    assert part.sharded_bytes == 5 * 3072 * 3072


def test_the_classs_plan_written_out_is_the_classs_plan(resolve: Resolve, root: Path) -> None:
    """A written-out plan equal to the class's own needs no setting of it, and one that differs does."""
    inventory = json.loads((root / "planc/catalog/cards/Flux2Transformer2DModel.inventory.json").read_text())
    plan: dict[str, Any] = {
        entry["pattern"]: {"style": entry["style"], "blocks": entry["blocks"]} for entry in inventory["tp_plan"]
    }
    (part,) = resolve(written(json.dumps(plan))).targets[0].tensor_parallel
    assert part.is_class_plan
    del plan["transformer_blocks.*.ff.linear_in"]
    (part,) = resolve(written(json.dumps(plan))).targets[0].tensor_parallel
    assert not part.is_class_plan


def test_a_checkpoint_that_no_card_knows_has_no_bytes(resolve: Resolve) -> None:
    """Bytes of a checkpoint whose config is not known are None, never a guess."""
    text = written("class").replace(KLEIN, "my-org/my-finetune")
    (part,) = resolve(text).targets[0].tensor_parallel
    assert (part.sharded_bytes, part.whole_bytes) == (None, None)


def test_the_shown_program_says_the_line_of_every_value(
    planc: Callable[..., Any], write_plan: Callable[..., Path]
) -> None:
    """`--show-program` prints each value of a target with the line it was said on, through `extends` and merging."""
    write_plan(SMALL)
    shown = planc("build", "plan.yaml", "--show-program", "--target", "tp")
    assert shown.stderr == ""
    assert shown.stdout.rstrip("\n") == SMALL_SHOWN.rstrip("\n")
    assert shown.returncode == 0


def test_every_shown_line_holds_its_value(resolve: Resolve) -> None:
    """Where a shown value has a line, the plan's text at that line and column is that value."""
    lines = SMALL.splitlines()
    checked = 0
    for target in resolve(SMALL).targets:
        for record in records(target):
            for key, span in record.origins.items():
                value = getattr(record, key, None)
                if isinstance(value, str | int) and not isinstance(value, bool):
                    assert lines[span.line - 1][span.column - 1 :].startswith(str(value)), (key, span)
                    checked += 1
    assert checked > 20


def test_every_origin_is_of_a_field(resolve: Resolve) -> None:
    """An origin is of a field that its record has, so that it is shown: what has no field has no line."""
    strays = [
        f"{type(record).__name__}: {key}"
        for target in resolve(SMALL).targets
        for record in records(target)
        for key in record.origins
        if not hasattr(record, key)
    ]
    assert not strays


def records(record: Record) -> list[Record]:
    """A record and all below it."""
    found = [record]
    for item in dataclasses.fields(record):
        value = getattr(record, item.name)
        for part in value if isinstance(value, tuple) else (value,):
            if isinstance(part, Record):
                found += records(part)
    return found


@pytest.mark.parametrize("where", ["compile: {}", "components: {{vae: {{compile: {}}}}}"])
def test_a_mode_and_options_of_a_compilation_are_refused_together(where: str, check: Check) -> None:
    """A compilation with both `mode` and `options` is refused: torch 2.13 raises on it once the weights are loaded."""
    text = HEAD + "shapes: [{height: 1024, width: 1024, text_tokens: 512}]\ntargets:\n  t:\n    device: cuda\n"
    for both, is_wrong in (("{mode: max-autotune, options: {a: 1}}", True), ("{mode: max-autotune}", False)):
        found = check(text + f"    mode: compiled\n    {where.format(both)}\n")
        assert any(item.severity.value == "error" for item in found) is is_wrong, found


@pytest.mark.parametrize(
    ("said", "variable", "line"),
    [
        ("hardware: {lnc: 2}", "NEURON_LOGICAL_NC_CONFIG", 6),
        ("cache_dir: /var/lib/neff", "TORCH_NEURONX_NEFF_CACHE_DIR", 6),
    ],
)
def test_a_variable_that_another_field_sets_is_no_default(
    said: str, variable: str, line: int, resolve: Resolve
) -> None:
    """A variable that `lnc` or `cache_dir` sets is shown with that field's line, not as a default."""
    program = resolve(HEAD + f"targets:\n  t:\n    device: neuron\n    {said}\n    mode: eager\n")
    (shown,) = [row for row in report.render(program, "t").splitlines() if variable in row]
    assert "# default" not in shown
    assert f"plan.yaml:{line}:" in shown


def test_programs_are_equal_whatever_their_lines(resolve: Resolve) -> None:
    """Where values were said is no part of what a program means: comments and order of lines change nothing."""
    moved = SMALL.replace("seed: 7\n", "\n# a comment\n\nseed:   7\n").replace(
        "  vae: {tiling: true}", "  vae:\n    tiling: true"
    )
    assert resolve(SMALL).targets == resolve(moved).targets


def test_every_record_of_a_program_is_frozen() -> None:
    """The program's records are frozen, take keywords only, and hold tuples where they hold several."""
    for name in vars(ir):
        record = getattr(ir, name)
        if not (isinstance(record, type) and dataclasses.is_dataclass(record)) or record is Span:
            continue
        parameters = record.__dataclass_params__  # type: ignore[attr-defined]  # every dataclass has them
        assert parameters.frozen, name
        assert all(item.kw_only for item in dataclasses.fields(record)), name
        for key, hint in get_type_hints(record).items():
            assert key == "origins" or not any(word in str(hint) for word in ("list", "dict", "Mapping")), (name, key)


def test_the_origin_of_an_entry_is_its_line(resolve: Resolve) -> None:
    """Each entry of a written-out plan knows its own line; entries of a class's plan share the word `class`."""
    text = HEAD + (
        "targets:\n  t:\n    device: cuda\n    mode: eager\n    tensor_parallel:\n      degree: 2\n      plan:\n"
        "        transformer_blocks.*.attn.to_q: colwise\n        x_embedder: rowwise\n"
    )
    entries: tuple[ShardEntry, ...] = resolve(text).targets[0].tensor_parallel[0].entries
    assert [(entry.pattern, entry.origin.line, entry.origin.column) for entry in entries] == [
        ("transformer_blocks.*.attn.to_q", 10, 41),
        ("x_embedder", 11, 21),
    ]
    (part,) = resolve(written("class")).targets[0].tensor_parallel
    column = written("class").splitlines()[3].index("class") + 1
    assert {(entry.origin.line, entry.origin.column) for entry in part.entries} == {(4, column)}
