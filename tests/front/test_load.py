"""Document → Plan: targets laid together, typed, and each value still knowing its line."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from planc import load, shape, source, spec
from planc.diagnostics import Diagnostic, Findings
from planc.located import NOWHERE, Located, Node, merge
from planc.spec import Plan, Target

Check = Callable[..., list[Diagnostic]]
Marked = Callable[[str], list[Diagnostic]]

HEAD = """\
version: 1
model: {pipeline: Flux2KleinPipeline, checkpoint: black-forest-labs/FLUX.2-klein-4B}
"""


def loaded(text: str, path: str = "plan.yaml") -> Plan:
    """The plan of a text in which the loader finds nothing."""
    findings = Findings()
    document = source.parse(path, text, findings)
    assert document is not None
    shape.check(document, findings)
    assert list(findings) == []
    plan = load.load(document, findings)
    assert plan is not None, [item.message for item in findings]
    return plan


def targets(text: str) -> dict[str, Target]:
    """The targets below a head that every plan of these tests has."""
    return dict(loaded(HEAD + text).targets)


def line(node: Node | None, *path: str | int) -> int:
    """The line that gave a value."""
    assert node is not None
    return node.span(*path).line


def only(found: list[Diagnostic]) -> Diagnostic:
    """The one finding."""
    assert len(found) == 1, [f"{item.code} {item.span}" for item in found]
    return found[0]


# Merging


def test_mappings_merge_by_key() -> None:
    """What a target says of a mapping adds to what the plan and the extended target say, key by key."""
    a, b = targets(
        "call: {prompt: a dog, num_inference_steps: 4}\n"
        "components: {vae: {tiling: true}}\n"
        "targets:\n"
        "  a: {device: cuda, mode: eager, launch: {env: {A: '1', B: '1'}}, call: {guidance_scale: 2.0}}\n"
        "  b: {extends: a, launch: {env: {B: '2'}, timeout: 9}, call: {prompt: a cat},\n"
        "      components: {vae: {slicing: true}}}\n"
    ).values()
    assert (a.call, b.call) == (
        {"prompt": "a dog", "num_inference_steps": 4, "guidance_scale": 2.0},
        {"prompt": "a cat", "num_inference_steps": 4, "guidance_scale": 2.0},
    )
    assert b.launch is not None
    assert (b.launch.env, b.launch.timeout) == ({"A": "1", "B": "2"}, 9)
    assert (a.components["vae"], b.components["vae"]) == (
        spec.Component(tiling=True),
        spec.Component(tiling=True, slicing=True),
    )


def test_lists_and_scalars_replace() -> None:
    """A list or scalar takes the place of the one it is laid on; nothing of the old one stays."""
    a, b = targets(
        "shapes: [{height: 64, width: 64, batch: 2}, {height: 128, width: 128}]\n"
        "seed: 1\n"
        "targets:\n"
        "  a: {device: cuda, mode: eager, seed: 2, call: {sigmas: [1.0, 0.5]}}\n"
        "  b: {extends: a, device: cpu, shapes: [{height: 32, width: 32}], call: {sigmas: [0.1]}}\n"
    ).values()
    assert a.shapes == (spec.Shape(height=64, width=64, batch=2), spec.Shape(height=128, width=128))
    assert b.shapes == (spec.Shape(height=32, width=32),)
    assert (a.seed, b.seed, b.device, b.mode, b.call) == (2, 2, "cpu", "eager", {"sigmas": (0.1,)})


def test_a_mapping_replaces_what_is_no_mapping_and_the_other_way_round() -> None:
    """Where only one side is a mapping it replaces the other side whole."""
    a, b, c = targets(
        "targets:\n"
        "  a: {device: cuda, mode: eager, tensor_parallel: {degree: 2, plan: class}}\n"
        "  b: {extends: a, tensor_parallel: {plan: {x_embedder: colwise, proj_out: {style: rowwise}}}}\n"
        "  c: {extends: b, tensor_parallel: {plan: class}}\n"
    ).values()
    assert a.tensor_parallel is not None
    assert c.tensor_parallel == a.tensor_parallel
    assert b.tensor_parallel == spec.TensorParallel(
        degree=2, plan={"x_embedder": "colwise", "proj_out": spec.PackedStyle(style="rowwise")}
    )


def test_a_style_replaces_a_style_with_blocks() -> None:
    """One entry of a written-out plan may be replaced by a bare style, the others staying."""
    _, b = targets(
        "targets:\n"
        "  a: {device: cuda, mode: eager,\n"
        "      tensor_parallel: {degree: 2, plan: {a: {style: packed_colwise, blocks: [1, 2]}, b: rowwise}}}\n"
        "  b: {extends: a, tensor_parallel: {plan: {a: colwise}}}\n"
    ).values()
    assert b.tensor_parallel is not None
    assert b.tensor_parallel.plan == {"a": "colwise", "b": "rowwise"}


def test_null_restores_the_default() -> None:
    """A null takes back what the plan or the extended target said."""
    b = targets(
        "call: {prompt: a dog}\nseed: 5\nshapes: [{height: 64, width: 64}]\ncomponents: {vae: {tiling: true}}\n"
        "targets:\n"
        "  a: {device: cuda, mode: eager, compile: {scope: full}, cache_dir: /x, launch: {timeout: 5, nnodes: 2},\n"
        "      model: {dtype: float32, revision: main}, tensor_parallel: {degree: 2, plan: class}}\n"
        "  b: {extends: a, compile: null, cache_dir: null, launch: {timeout: null}, model: {dtype: null},\n"
        "      tensor_parallel: ~, call: null, seed: null, shapes: null, components: {vae: {tiling: null}}}\n"
    )["b"]
    assert (b.compile, b.cache_dir, b.tensor_parallel) == (None, None, None)
    assert (b.call, b.seed, b.shapes, b.components) == ({}, 0, (), {"vae": spec.Component()})
    assert b.launch == spec.Launch(nnodes=2)
    assert (b.model.dtype, b.model.revision) == ("bfloat16", "main")


def test_what_null_took_back_may_be_said_anew() -> None:
    """After a null in between, a mapping starts from nothing."""
    c = targets(
        "targets:\n"
        "  a: {device: cuda, mode: eager, launch: {timeout: 5, env: {A: '1'}}}\n"
        "  b: {extends: a, launch: null}\n"
        "  c: {extends: b, launch: {nnodes: 2}}\n"
    )["c"]
    assert c.launch == spec.Launch(nnodes=2)


def test_null_takes_back_the_plans_own_keys_for_those_that_extend_too() -> None:
    """A null for a shared key in a target holds for the targets that start from it."""
    b, c = list(
        targets(
            "call: {prompt: a dog, guidance_scale: 3.0}\n"
            "targets:\n"
            "  b: {device: cuda, mode: eager, call: null}\n"
            "  c: {extends: b, call: {num_inference_steps: 4}}\n"
        ).values()
    )
    assert (b.call, c.call) == ({}, {"num_inference_steps": 4})


def test_null_takes_back_a_single_keyword() -> None:
    """A null for one keyword of `call` restores the default of diffusers, as the plan format says of merging."""
    a, b = targets(
        "call: {prompt: a dog, guidance_scale: 3.0}\n"
        "targets:\n"
        "  a: {device: cuda, mode: eager}\n"
        "  b: {device: cuda, mode: eager, call: {guidance_scale: null}}\n"
    ).values()
    assert (a.call, b.call) == ({"prompt": "a dog", "guidance_scale": 3.0}, {"prompt": "a dog"})


def test_extends_follows_a_chain_whatever_the_order() -> None:
    """A target may extend one that stands below it, over any number of steps, the nearest winning."""
    found = targets(
        "targets:\n"
        "  d: {extends: c, seed: 4}\n"
        "  c: {extends: b, mode: compiled}\n"
        "  b: {extends: a, device: cpu, seed: 2}\n"
        "  a: {device: cuda, mode: eager, seed: 1, cache_dir: /x}\n"
    )
    assert list(found) == ["d", "c", "b", "a"]
    assert [(item.device, item.mode, item.seed, item.cache_dir) for item in found.values()] == [
        ("cpu", "compiled", 4, "/x"),
        ("cpu", "compiled", 2, "/x"),
        ("cpu", "eager", 2, "/x"),
        ("cuda", "eager", 1, "/x"),
    ]


def test_a_target_may_repeat_every_shared_key() -> None:
    """Model, call, seed, shapes and components of a target are laid on the plan's."""
    assert spec.SHARED_KEYS == ("model", "call", "seed", "shapes", "components")
    a, b = targets(
        "call: {prompt: x}\nseed: 1\nshapes: [{height: 16, width: 16}]\ncomponents: {text_encoder: {placement: cpu}}\n"
        "targets:\n"
        "  a: {device: cuda, mode: eager}\n"
        "  b:\n"
        "    device: cuda\n"
        "    mode: eager\n"
        "    model: {checkpoint: black-forest-labs/FLUX.2-klein-9B, dtype: float32}\n"
        "    call: {prompt: z}\n"
        "    seed: 2\n"
        "    shapes: [{height: 32, width: 32}]\n"
        "    components: {vae: {tiling: true}}\n"
    ).values()
    assert a.model == spec.Model(pipeline="Flux2KleinPipeline", checkpoint="black-forest-labs/FLUX.2-klein-4B")
    assert b.model == spec.Model(
        pipeline="Flux2KleinPipeline", checkpoint="black-forest-labs/FLUX.2-klein-9B", dtype="float32"
    )
    assert (a.seed, b.seed, a.call, b.call) == (1, 2, {"prompt": "x"}, {"prompt": "z"})
    assert (a.shapes[0].height, b.shapes[0].height) == (16, 32)
    assert (list(a.components), list(b.components)) == (["text_encoder"], ["text_encoder", "vae"])


def test_merging_leaves_its_parts_as_they_were() -> None:
    """Laying two trees together changes neither."""
    base, over = Located.of({"a": {"x": 1}}), Located.of({"a": {"y": 2}})
    assert merge(base, over).plain == {"a": {"x": 1, "y": 2}}
    assert (base.plain, over.plain) == ({"a": {"x": 1}}, {"a": {"y": 2}})


# Spans

SPANS = """\
version: 1
model:
  pipeline: Flux2KleinPipeline
  checkpoint: black-forest-labs/FLUX.2-klein-4B
call:
  prompt: a dog
  guidance_scale: 2.0
seed: 3
targets:
  a:
    device: cuda
    mode: eager
    tensor_parallel:
      degree: 2
      plan: {proj_out: colwise}
  b:
    extends: a
    mode: compiled
    tensor_parallel:
      degree: 4
    call:
      prompt: a cat
    model:
      dtype: float32
"""


def test_each_value_points_at_the_line_that_wrote_it() -> None:
    """After merging, a span is that of the plan, the extended target or the target, whichever said the value."""
    b = loaded(SPANS).targets["b"]
    assert line(b, "device") == 11
    assert line(b, "mode") == 18
    assert line(b, "seed") == 8
    assert (line(b, "call", "prompt"), line(b, "call", "guidance_scale")) == (22, 7)
    assert (line(b.model, "checkpoint"), line(b.model, "dtype")) == (4, 24)
    assert (line(b.tensor_parallel, "degree"), line(b.tensor_parallel, "plan", "proj_out")) == (20, 15)
    assert line(b, "tensor_parallel", "degree") == 20


def test_what_was_not_written_points_at_what_is_above_it() -> None:
    """The span of a default is the key of the mapping that could have said it."""
    b = loaded(SPANS).targets["b"]
    assert (b.at.anchor.line, b.at.anchor.column, b.at.anchor.end_column) == (16, 3, 4)
    assert b.span("cache_dir") == b.at.anchor
    assert b.model.key_span("revision").line == 23


def test_a_node_knows_what_the_plan_said() -> None:
    """`says` tells what was written from what is a default; null counts as not written."""
    b = loaded(SPANS.replace("      dtype: float32\n", "      dtype: null\n")).targets["b"]
    assert (b.says("mode"), b.says("seed"), b.says("cache_dir"), b.model.says("dtype")) == (True, True, False, False)
    assert (b.says("call", "prompt"), b.says("call", "sigmas"), b.says("mode", "x")) == (True, False, False)


def test_findings_of_a_merged_value_stand_where_it_was_written(marked: Marked) -> None:
    """A rule broken by two targets together points at the line that broke it."""
    marked(
        SPANS.replace("degree: 4", "degree: ⟦P301 5⟧")
        .replace("mode: compiled", "mode: ⟦P502 compiled⟧")
        .replace("guidance_scale: 2.0", "guidance_scale: ⟦P113 two⟧")
    )


# Types


def test_values_get_the_types_of_their_records() -> None:
    """A loaded target holds records, tuples and mappings, not the raw data."""
    a = targets(
        "targets:\n"
        "  a:\n"
        "    device: neuron\n"
        "    mode: compiled\n"
        "    hardware: {instance: trn2.48xlarge, lnc: 2}\n"
        "    compile: {options: {a: 1, b: x, c: 1.5, d: true}}\n"
        "    scheduler: {class: S, config: {shift: 3, nested: {a: [1, null]}}}\n"
        "    call: {prompt: x, guidance_scale: 3, sigmas: [1, 0.5], flag: false, deep: {a: [1]}}\n"
    )["a"]
    assert a.hardware == spec.Hardware(instance="trn2.48xlarge", lnc=2)
    assert a.compile == spec.Compile(options={"a": 1, "b": "x", "c": 1.5, "d": True})
    assert a.compile.options is not None
    assert [type(item) for item in a.compile.options.values()] == [int, str, float, bool]
    assert a.scheduler == spec.Scheduler(class_="S", config={"shift": 3, "nested": {"a": [1, None]}})
    assert a.call == {"prompt": "x", "guidance_scale": 3, "sigmas": (1, 0.5), "flag": False, "deep": {"a": [1]}}


def test_a_context_parallel_plan_keeps_its_output_indices() -> None:
    """An all-digit key below a module is an output index, and a module may have a tensor of its own instead."""
    a = targets(
        "targets:\n"
        "  a:\n"
        "    device: cuda\n"
        "    mode: eager\n"
        "    context_parallel:\n"
        "      plan:\n"
        '        "": {hidden_states: {split_dim: 1, expected_dims: 3}}\n'
        '        pos_embed: {"0": {split_dim: 0, expected_dims: 2, split_output: true}}\n'
        "        proj_out: {gather_dim: 1, expected_dims: 3}\n"
    )["a"]
    tensor = spec.ContextParallelTensor
    assert a.context_parallel is not None
    assert a.context_parallel.plan == {
        "": {"hidden_states": tensor(split_dim=1, expected_dims=3)},
        "pos_embed": {"0": tensor(split_dim=0, expected_dims=2, split_output=True)},
        "proj_out": tensor(gather_dim=1, expected_dims=3),
    }


def test_a_plan_keeps_its_name_and_text() -> None:
    """The plan's name is its file's, without folder and ending; its text is the file's."""
    plan = loaded(SPANS, "some/folder/my-plan.yaml")
    assert (plan.name, plan.file_name, plan.text) == ("my-plan", "my-plan.yaml", SPANS)


def test_a_bool_is_no_number_of_steps() -> None:
    """True and 1 stay apart through loading."""
    a = targets("call: {a: true, b: 1, c: 1.0}\ntargets: {a: {device: cuda, mode: eager}}\n")["a"]
    assert [(type(item), item) for item in a.call.values()] == [(bool, True), (int, 1), (float, 1.0)]


# Missing after merging


@pytest.mark.parametrize(
    ("lines", "key"),
    [
        (
            (
                "  a: {device: cuda, mode: eager}",
                "  ⟦P102 b⟧: {extends: c}",
                "  ⟦P102 c⟧: {extends: null, device: cpu}",
            ),
            "mode",
        ),
        (("  ⟦P102 a⟧: {extends: null, mode: eager}",), "device"),
    ],
)
def test_a_key_missing_from_the_whole_target_is_reported(marked: Marked, lines: tuple[str, ...], key: str) -> None:
    """A target that lacks a key even after `extends` is P102 at its name."""
    found = marked(HEAD + "targets:\n" + "\n".join(lines) + "\n")
    assert all(f"needs the key `{key}`" in item.message for item in found)


def test_a_target_may_leave_out_what_it_extends(check: Check) -> None:
    """Parts of a mapping may come from the target that is extended."""
    text = (
        "targets:\n"
        "  a: {device: cuda, mode: eager, tensor_parallel: {degree: 2, plan: class}}\n"
        "  b: {extends: a, tensor_parallel: {degree: 4}}\n"
        "  c: {extends: a, tensor_parallel: {plan: {x_embedder: colwise}}}\n"
    )
    assert check(HEAD + text) == []


# Extends


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("tp88", "did you mean `tp8`?"),
        ("nothing", "targets of this file: tp8, b"),
        ("TP8", None),
        ("''", None),
    ],
)
def test_extending_an_unknown_target_suggests_one(marked: Marked, name: str, hint: str | None) -> None:
    """P107 stands at the name and says which target was meant, or which there are."""
    item = only(marked(HEAD + f"targets:\n  tp8: {{device: cuda, mode: eager}}\n  b: {{extends: ⟦P107 {name}⟧}}\n"))
    assert hint is None or item.hint == hint


def test_an_unknown_target_is_said_once(marked: Marked) -> None:
    """Targets that start from one with a bad `extends` do not repeat the finding."""
    marked(HEAD + "targets:\n  a: {extends: b}\n  b: {extends: ⟦P107 nowhere⟧}\n  c: {extends: a}\n")


def test_a_target_that_extends_itself_is_reported(marked: Marked) -> None:
    """The smallest circle is P108."""
    item = only(marked(HEAD + "targets:\n  a: {device: cuda, mode: eager, extends: ⟦P108 a⟧}\n"))
    assert item.message == "targets extend each other in a circle: a → a"


def test_targets_that_extend_each_other_are_reported_each(marked: Marked) -> None:
    """Every target that leads into a circle is P108 at its `extends`; the others are loaded."""
    found = marked(
        HEAD
        + "targets:\n  a: {extends: ⟦P108 b⟧}\n  b: {extends: ⟦P108 c⟧}\n  c: {extends: ⟦P108 b⟧}\n"
        + "  d: {device: cuda, mode: eager}\n"
    )
    assert [item.message.partition(": ")[2] for item in found] == ["a → b → c → b", "b → c → b", "c → b → c"]


def test_a_long_chain_of_targets_is_no_crash(check: Check) -> None:
    """Hundreds of targets that each extend the next are loaded or refused, without running out of stack."""
    chain = "".join(f"  t{number}: {{extends: t{number + 1}}}\n" for number in range(300))
    assert check(HEAD + "targets:\n" + chain + "  t300: {device: cuda, mode: eager}\n") == []


# Names


@pytest.mark.parametrize(
    ("name", "module"),
    [
        ("json", "json"),
        ("os", "os"),
        ("torch", "torch"),
        ("diffusers", "diffusers"),
        ("transformers", "transformers"),
        ("torch-neuronx", "torch_neuronx"),
        ("typing-extensions", "typing_extensions"),
        ("numpy", "numpy"),
        ("pil", "pil"),
        ("importlib-metadata", "importlib_metadata"),
        ("concurrent", "concurrent"),
        ("planc", "planc"),
    ],
)
def test_a_name_that_would_shadow_a_module_is_refused(marked: Marked, name: str, module: str) -> None:
    """A target named as a module of Python, torch or diffusers is P109, and another name is proposed."""
    item = only(marked(HEAD + f"targets:\n  ⟦P109 {name}⟧: {{device: cuda, mode: eager}}\n"))
    assert item.message == f"a script `{module}.py` would shadow the module `{module}`"
    assert item.hint == f"rename the target, for example `{name}-run`"


def test_no_module_of_the_standard_library_can_be_shadowed(check: Check) -> None:
    """Every public standard module that a target could be named as is refused."""
    names = [name.replace("_", "-") for name in sorted(sys.stdlib_module_names) if name[0] != "_" and name.islower()]
    found = check(HEAD + "targets:\n" + "".join(f"  {name}: {{device: cuda, mode: eager}}\n" for name in names))
    assert {item.code for item in found} == {"P109"}
    assert len(found) == len(names)


@pytest.mark.parametrize("module", ["anyio", "httpx2", "httpcore2", "truststore"])
def test_what_the_hub_client_imports_cannot_be_shadowed(marked: Marked, module: str) -> None:
    """Modules that huggingface_hub imports while a script loads its weights are refused as names."""
    marked(HEAD + f"targets:\n  ⟦P109 {module}⟧: {{device: cuda, mode: eager}}\n")


@pytest.mark.parametrize("name", ["tp-plan", "cp-plan", "manifest"])
def test_a_name_of_a_file_that_planc_writes_is_refused(marked: Marked, name: str) -> None:
    """A target whose script would be one of planc's own files is P109."""
    item = only(marked(HEAD + f"targets:\n  ⟦P109 {name}⟧: {{device: cuda, mode: eager}}\n"))
    assert item.message == f"planc itself writes a file `{name.replace('-', '_')}`"


@pytest.mark.parametrize("name", ["json-run", "torch2", "compiled", "eager", "blocks", "cpu", "tp8"])
def test_names_near_to_modules_are_fine(marked: Marked, name: str) -> None:
    """Only the very name of a module is refused."""
    marked(HEAD + f"targets:\n  {name}: {{device: cuda, mode: eager}}\n")


@pytest.mark.parametrize(
    "name", ["plan.v2.yaml", "Plan.yaml", "my_plan.yaml", "my plan.yaml", "-a.yaml", "plan\n.yaml", "ä.yaml"]
)
def test_a_plan_file_with_a_bad_name_is_refused(check: Check, name: str) -> None:
    """A plan's file name becomes its output folder, so it is held to the same form: P106 at the file's start."""
    item = only(check(HEAD + "targets: {a: {device: cuda, mode: eager}}\n", name))
    assert (item.code, item.span.line, item.span.column) == ("P106", 1, 1)


@pytest.mark.parametrize("name", ["plan.yaml", "flux2-dev.yml", "1.yaml", "json.yaml"])
def test_a_plan_file_with_a_good_name_is_accepted(check: Check, name: str) -> None:
    """A plan's folder shadows nothing, so it may be named as a module."""
    assert check(HEAD + "targets: {a: {device: cuda, mode: eager}}\n", name) == []


def test_all_faults_of_loading_are_reported_at_once(marked: Marked) -> None:
    """Names, unknown targets, circles and missing keys are found in one run."""
    marked(
        HEAD
        + "targets:\n  ⟦P109 json⟧: {device: cuda, mode: eager}\n  b: {extends: ⟦P107 nowhere⟧}\n"
        + "  c: {extends: ⟦P108 c⟧}\n  ⟦P102 d⟧: {extends: null, device: cuda}\n"
    )


def test_data_without_a_file_has_no_place() -> None:
    """Plain data wrapped for tests and cards points nowhere."""
    tree = Located.of({"a": [1, {"b": None}]})
    assert (tree.plain, tree.find(("a", 1, "b")).span) == ({"a": [1, {"b": None}]}, NOWHERE)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ((), {"a": [1, 2]}),
        (("a",), [1, 2]),
        (("a", 1), 2),
        (("a", 7), [1, 2]),
        (("x", "y"), {"a": [1, 2]}),
        (("a", "b"), [1, 2]),
    ],
)
def test_finding_a_path_ends_at_the_deepest_node_there_is(path: tuple[str | int, ...], expected: Any) -> None:
    """A path that leads nowhere gives the last node that exists on it."""
    assert Located.of({"a": [1, 2]}).find(path).plain == expected


def test_the_path_of_a_span_is_the_files(tmp_path: Path) -> None:
    """Spans carry the path as the user gave it."""
    plan = loaded(SPANS, "some/plan.yaml")
    assert str(plan.targets["a"].span("device")) == "some/plan.yaml:11:13"
