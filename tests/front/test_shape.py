"""Document + schema → findings: every way in which a plan has not the shape of a plan, said at its place."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from planc import load, lower, resources, rules, schema, shape, spec
from planc.catalog.lookup import lookup
from planc.diagnostics import Diagnostic, Findings
from planc.located import Located, Node, key_of
from planc.source import Document

Check = Callable[..., list[Diagnostic]]
Marked = Callable[[str], list[Diagnostic]]

ROOT = Path(__file__).resolve().parents[2]
HEAD = """\
version: 1
model: {pipeline: Flux2KleinPipeline, checkpoint: black-forest-labs/FLUX.2-klein-4B}
"""
TAIL = """\
targets:
  eager: {device: cuda, mode: eager}
"""


def target(*lines: str) -> str:
    """A plan with one eager target that has these lines."""
    return HEAD + "targets:\n  t:\n    device: cuda\n    mode: eager\n" + "".join(f"    {line}\n" for line in lines)


def only(found: list[Diagnostic]) -> Diagnostic:
    """The one finding."""
    assert len(found) == 1, [f"{item.code} {item.span}" for item in found]
    return found[0]


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        (HEAD + "⟦P101 sed⟧: 1\n" + TAIL, "did you mean `seed`?"),
        (HEAD + "⟦P101 Targets⟧: 1\n" + TAIL, "did you mean `targets`?"),
        (HEAD.replace("}", ", ⟦P101 chekpoint⟧: x}") + TAIL, "did you mean `checkpoint`?"),
        (
            target("tensor_paralel: 1").replace("tensor_paralel", "⟦P101 tensor_paralel⟧"),
            "did you mean `tensor_parallel`?",
        ),
        (target("compile: {⟦P101 fullgraf⟧: true}"), "did you mean `fullgraph`?"),
        (target("components: {vae: {⟦P101 tilling⟧: true}}"), "did you mean `tiling`?"),
        (target("launch: {⟦P101 nnode⟧: 2}"), "did you mean `nnodes`?"),
        (target("shapes: [{height: 64, width: 64, ⟦P101 text_token⟧: 8}]"), "did you mean `text_tokens`?"),
        (target("tensor_parallel: {degree: 2, plan: class, ⟦P101 degre⟧: 2}"), "did you mean `degree`?"),
        (
            target("tensor_parallel: {degree: 2, plan: {a: {style: colwise, ⟦P101 block⟧: [1]}}}"),
            "did you mean `blocks`?",
        ),
        (target("scheduler: {class: X, ⟦P101 class_⟧: Z}"), "did you mean `class`?"),
    ],
)
def test_an_unknown_key_suggests_the_one_that_was_meant(marked: Marked, text: str, hint: str) -> None:
    """A misspelt key is P101 on the key, at every depth, with the nearest known key."""
    assert only(marked(text)).hint == hint


def test_an_unknown_key_far_from_all_lists_those_known(marked: Marked) -> None:
    """A key near to none gets the list of the keys that are known at its place."""
    item = only(marked(target("hardware: {⟦P101 colour⟧: red}")))
    assert item.message == "`targets.t.hardware` has no key `colour`"
    assert item.hint == "known here: instance, lnc"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("⟦P102 ⟧model: {checkpoint: x}\n" + TAIL, "the plan needs the key `version`"),
        ("⟦P102 ⟧version: 1\n" + TAIL, "the plan needs the key `model`"),
        ("⟦P102 ⟧" + HEAD, "the plan needs the key `targets`"),
        ("version: 1\n⟦P102 model⟧: {pipeline: P}\n" + TAIL, "`model` needs the key `checkpoint`"),
        (HEAD + "targets:\n  ⟦P102 t⟧: {device: cuda}\n", "`targets.t` needs the key `mode`"),
        (HEAD + "targets:\n  ⟦P102 t⟧:\n    mode: eager\n", "`targets.t` needs the key `device`"),
        (target("shapes:", "  - ⟦P102 ⟧height: 64"), "`targets.t.shapes[0]` needs the key `width`"),
        (target("shapes: [⟦P102 {height: 64}⟧]"), "`targets.t.shapes[0]` needs the key `width`"),
    ],
)
def test_a_missing_key_is_reported_at_the_mapping_that_lacks_it(marked: Marked, text: str, message: str) -> None:
    """P102 stands at the key of the mapping that lacks a key, or at its start, and says what to add."""
    item = only(marked(text))
    assert item.message == message
    assert item.hint == f"add `{message.split('`')[-2]}:`"


@pytest.mark.parametrize(
    ("line", "what", "key"),
    [
        ("⟦P102 tensor_parallel⟧: {degree: 2}", "tensor_parallel", "plan"),
        ("⟦P102 tensor_parallel⟧: {plan: class}", "tensor_parallel", "degree"),
        ("⟦P102 scheduler⟧: {config: {}}", "scheduler", "class"),
        ("components: {vae: {⟦P102 tensor_parallel⟧: {}}}", "tensor_parallel", "plan"),
        ("tensor_parallel: {degree: 2, plan: {⟦P102 x_embedder⟧: {blocks: [1]}}}", "x_embedder", "style"),
    ],
)
def test_a_key_missing_below_a_target_is_not_said_of_the_target(marked: Marked, line: str, what: str, key: str) -> None:
    """The message of P102 names the mapping that lacks the key, not the target round it."""
    message = only(marked(target(line))).message
    assert f"{what}` needs the key `{key}`" in message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEAD + 'seed: ⟦P103 "7"⟧\n' + TAIL, '`seed` is the text "7", and must be a whole number'),
        (HEAD + "seed: ⟦P103 7.0⟧\n" + TAIL, "`seed` is `7.0`, and must be a whole number"),
        (HEAD + "seed: ⟦P103 true⟧\n" + TAIL, "`seed` is `true`, and must be a whole number"),
        (HEAD + "⟦P103 seed⟧: [7]\n" + TAIL, "`seed` is a list, and must be a whole number"),
        (HEAD + "⟦P103 seed⟧:\n  a: 7\n" + TAIL, "`seed` is a mapping, and must be a whole number"),
        (HEAD + "call: ⟦P103 x⟧\n" + TAIL, '`call` is the text "x", and must be a mapping'),
        (HEAD + "⟦P103 call⟧:\n  - x\n" + TAIL, "`call` is a list, and must be a mapping"),
        (HEAD + "⟦P103 shapes⟧: {height: 64, width: 64}\n" + TAIL, "`shapes` is a mapping, and must be a list"),
        (HEAD + "shapes: [⟦P103 64⟧]\n" + TAIL, "`shapes[0]` is `64`, and must be a mapping"),
        (HEAD + "targets:⟦P103 ⟧\n", "`targets` is empty, and must be a mapping"),
        (HEAD + "targets: {t: ⟦P103 null⟧}\n", "`targets.t` is empty, and must be a mapping"),
        ("⟦P103 hello⟧\n", 'the plan is the text "hello", and must be a mapping'),
        ("⟦P103 ⟧- a\n", "the plan is a list, and must be a mapping"),
        ("version: ⟦P103 true⟧\n" + HEAD[11:] + TAIL, "`version` is `true`, and must be `1`"),
        ("version: ⟦P103 2⟧\n" + HEAD[11:] + TAIL, "`version` is `2`, and must be `1`"),
        (target("compile: {fullgraph: ⟦P103 1⟧}"), "`targets.t.compile.fullgraph` is `1`, and must be true or false"),
        (target("compile: {fullgraph: ⟦P103 'false'⟧}"), None),
        (target("launch: {env: {A: ⟦P103 8⟧}}"), "`targets.t.launch.env.A` is `8`, and must be text"),
        (target("hardware: {lnc: ⟦P103 3⟧}"), "`targets.t.hardware.lnc` is `3`, and must be `1` or `2`"),
        (target("tensor_parallel: {degree: ⟦P103 8.0⟧, plan: class}"), None),
        (target("⟦P103 tensor_parallel⟧: [2]"), "`targets.t.tensor_parallel` is a list, and must be a mapping"),
        (target("device: ⟦P103 null⟧").replace("device: cuda\n", "cache_dir: null\n"), None),
    ],
)
def test_a_value_of_another_kind_is_reported_with_both_kinds(marked: Marked, text: str, message: str | None) -> None:
    """P103 says what stands there and what must: a scalar at itself, a list or mapping at its key."""
    item = only(marked(text))
    assert message is None or item.message == message


@pytest.mark.parametrize(
    "text",
    [
        ("version: ⟦P103 '1'⟧\n" + HEAD[11:] + TAIL),
        target("hardware: {lnc: ⟦P103 '2'⟧}"),
    ],
)
def test_a_number_in_quotes_is_called_text(marked: Marked, text: str) -> None:
    """Where only certain numbers fit, the same digits in quotes are of the wrong kind: text."""
    item = only(marked(text))
    assert "is the text " in item.message
    assert item.hint is None


@pytest.mark.parametrize(
    "text",
    [("version: ⟦P103 1.0⟧\n" + HEAD[11:] + TAIL), target("hardware: {lnc: ⟦P103 2.0⟧}").replace("cuda", "neuron")],
)
def test_a_float_is_no_whole_number_among_values_either(marked: Marked, text: str) -> None:
    """1.0 does not pass for 1 where only certain whole numbers fit: it would reach the script as 1.0."""
    marked(text)


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        (
            target().replace("cuda", "⟦P104 gpu⟧"),
            "`targets.t.device` is `gpu`, and must be `neuron`, `cuda`, `xpu`, `tpu` or `cpu`",
            "did you mean `cuda`?",
        ),
        (target().replace("cuda", "⟦P104 CUDA⟧"), None, "did you mean `cuda`?"),
        (target().replace("cuda", "⟦P104 trn2⟧"), None, "did you mean `neuron`?"),
        (target().replace("cuda", "⟦P104 abacus⟧"), None, None),
        (target().replace("eager", "⟦P104 compile⟧"), None, "did you mean `compiled`?"),
        (target("model: {dtype: ⟦P104 bf16⟧}"), None, "did you mean `bfloat16`?"),
        (target("model: {dtype: ⟦P104 float23⟧}"), None, "did you mean `float32`?"),
        (
            target("tensor_parallel: {degree: 2, plan: ⟦P104 clas⟧}"),
            "`targets.t.tensor_parallel.plan` is `clas`, and must be `class`, `shipped` or a mapping",
            "did you mean `class`?",
        ),
        (target("tensor_parallel: {degree: 2, plan: {a.b: ⟦P104 column⟧}}"), None, "did you mean `colwise`?"),
        (target("tensor_parallel: {degree: 2, plan: {a.b: {style: ⟦P104 rowwize⟧}}}"), None, "did you mean `rowwise`?"),
        (target("context_parallel: {plan: ⟦P104 klass⟧}"), None, "did you mean `class`?"),
        (target("components: {vae: {placement: ⟦P104 gpu⟧}}"), None, None),
        (
            target("hardware: {instance: ⟦P104 'trn2 48xlarge'⟧}"),
            "`targets.t.hardware.instance` is `trn2 48xlarge`, which is no such name",
            "write it like `trn2.48xlarge`",
        ),
    ],
)
def test_a_value_that_is_not_among_those_allowed_is_reported(
    marked: Marked, text: str, message: str | None, hint: str | None
) -> None:
    """P104 lists what the key takes, and suggests the nearest or the word that people use for it."""
    item = only(marked(text))
    assert message is None or item.message == message
    assert item.hint == hint


@pytest.mark.parametrize(
    "line", ['hardware: {instance: "trn2\\n"}', "hardware: {instance: '../x'}", "hardware: {instance: ''}"]
)
def test_an_instance_is_one_word(check: Check, line: str) -> None:
    """A line end, a path or nothing is no instance type."""
    assert [item.code for item in check(target(line))] == ["P104"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEAD + "seed: ⟦P105 -1⟧\n" + TAIL, "`seed` is -1, and must be at least 0"),
        (
            target("tensor_parallel: {degree: ⟦P105 1⟧, plan: class}"),
            "`targets.t.tensor_parallel.degree` is 1, and must be at least 2",
        ),
        (target("shapes: [{height: ⟦P105 0⟧, width: ⟦P105 -64⟧}]"), None),
        (target("launch: {nnodes: ⟦P105 0⟧}"), None),
        (HEAD + "⟦P105 targets⟧: {}\n", "`targets` needs at least one key"),
        (
            target("tensor_parallel: {degree: 2, ⟦P105 plan⟧: {}}"),
            "`targets.t.tensor_parallel.plan` needs at least one key",
        ),
        (target("tensor_parallel: {degree: 2, plan: {a: {style: packed_colwise, ⟦P105 blocks⟧: []}}}"), None),
        (target("tensor_parallel: {degree: 2, plan: {a: {style: packed_colwise, blocks: [1, ⟦P105 0⟧]}}}"), None),
        (target("⟦P105 cache_dir⟧: ''"), "`targets.t.cache_dir` must not be empty"),
        ("version: 1\nmodel: {⟦P105 checkpoint⟧: ''}\n" + TAIL, "`model.checkpoint` must not be empty"),
    ],
)
def test_what_is_too_small_or_empty_is_reported(marked: Marked, text: str, message: str | None) -> None:
    """P105 says the number and the least it may be, or what must not be empty."""
    found = marked(text)
    assert message is None or only(found).message == message


@pytest.mark.parametrize(
    ("text", "where"),
    [
        (target("tensor_parallel: {degree: 2, plan: {a: ⟦P103 7⟧}}"), "a"),
        (target("tensor_parallel: {degree: 2, plan: {⟦P103 a⟧: [colwise]}}"), "a"),
        (
            target("tensor_parallel: {degree: 2, plan: {a: {style: packed_colwise, blocks: [1, ⟦P103 b⟧]}}}"),
            "a.blocks[1]",
        ),
        (target("tensor_parallel: {degree: 2, plan: {a: {style: packed_colwise, blocks: ⟦P103 1⟧}}}"), "a.blocks"),
        (target("context_parallel: {plan: {rope: {x: {split_dim: ⟦P103 a⟧}}}}"), "rope.x.split_dim"),
        (target("context_parallel: {plan: {rope: {'0': {split_dim: 1, ⟦P101 gather_dmi⟧: 2}}}}"), "rope.0"),
        (target("context_parallel: {plan: {rope: {⟦P101 split_dmi⟧: 1}}}"), "rope"),
    ],
)
def test_faults_inside_a_union_are_told_of_the_member_that_was_meant(marked: Marked, text: str, where: str) -> None:
    """A value that may be one of several kinds is held against the kind that it looks like, however deep."""
    assert where in only(marked(text)).message


@pytest.mark.parametrize("name", ["../eager", "Eager", "a_b", "a.b", "a b", "", "-a", "ä", "a/b", "__init__", "²"])
def test_a_name_that_cannot_name_a_file_is_refused(marked: Marked, name: str) -> None:
    """A target name that is not small letters, digits and dashes is P106 on the name."""
    found = marked(HEAD + f"targets:\n  ⟦P106 '{name}'⟧: {{device: cuda, mode: eager}}\n")
    assert only(found).message == f"`{name}` cannot name a file"


@pytest.mark.parametrize("name", ['"eager\\n"', '"eager\\t"', '"eager\\0"', '"\\nb"'])
def test_a_name_has_no_line_end(marked: Marked, name: str) -> None:
    """A target name that ends in a line feed is P106: the script's file name would hold it."""
    marked(HEAD + f"targets:\n  ⟦P106 {name}⟧: {{device: cuda, mode: eager}}\n")


@pytest.mark.parametrize("name", ["a", "1", "tp8-compiled", "a--", "0-0"])
def test_small_letters_digits_and_dashes_are_a_name(marked: Marked, name: str) -> None:
    """Names of the stated form are accepted."""
    marked(HEAD + f"targets:\n  {name}: {{device: cuda, mode: eager}}\n")


def test_all_faults_of_the_shape_are_reported_at_once_and_in_order(check: Check, marked: Marked) -> None:
    """One run names every misfit of the file, sorted by place."""
    text = """\
⟦P101 versio⟧: 1
⟦P102 model⟧: {pipeline: ⟦P103 5⟧, ⟦P101 chekpoint⟧: x}
seed: ⟦P105 -1⟧
shapes: [{height: ⟦P105 0⟧, width: ⟦P103 a⟧}, ⟦P103 7⟧]
targets:
  ⟦P102 ⟦P106 A⟧⟧: {device: ⟦P104 gpu⟧}
  b: ⟦P103 5⟧
  c: {device: cuda, mode: eager, extends: nowhere}
"""
    found = marked("⟦P102 ⟧" + text)
    assert [item.span for item in found] == sorted(item.span for item in found)
    assert found[0].message == "the plan needs the key `version`"


def test_nothing_is_loaded_from_a_misshapen_plan(check: Check) -> None:
    """The rules and the loader run only on a plan that has the right shape: one fault does not hide as many."""
    text = HEAD + "targets:\n  json: {device: gpu, mode: eager, extends: nowhere}\n"
    assert [item.code for item in check(text)] == ["P104"]


NULLABLE = """\
version: 1
model: {checkpoint: black-forest-labs/FLUX.2-klein-4B, pipeline: null, revision: null, variant: null,
  use_safetensors: null, dtype: null}
call: null
seed: null
shapes: null
components: null
targets:
  t:
    extends: null
    device: cuda
    mode: eager
    compile: null
    cache_dir: null
    hardware: {instance: null, lnc: null}
    attention_backend: null
    tensor_parallel: null
    context_parallel: null
    components: {vae: {placement: null, dtype: null, compile: null, tensor_parallel: null, tiling: null, slicing: null}}
    scheduler: null
    launch: {nnodes: null, timeout: null, env: null}
    call: null
    seed: null
    shapes: null
  u: {extends: t, hardware: null, components: null, launch: null}
"""


def test_every_field_with_a_default_may_be_null(check: Check) -> None:
    """Null stands for the default wherever there is one."""
    assert check(NULLABLE) == []


# The schema itself


def schema_of_plans() -> dict[str, Any]:
    """The schema as shipped."""
    data: dict[str, Any] = json.loads(resources.text("schemas", "plan.schema.json"))
    return data


def test_the_schema_is_valid_json_schema() -> None:
    """plan.schema.json is itself valid against its draft."""
    jsonschema.Draft202012Validator.check_schema(schema_of_plans())


def test_the_schema_on_disk_is_the_one_of_the_records() -> None:
    """plan.schema.json is what spec.py says; `planc sync` writes it."""
    assert resources.text("schemas", "plan.schema.json") == schema.dump(schema.plan_schema())


@pytest.mark.parametrize("path", sorted((ROOT / "plans").glob("*.yaml")), ids=lambda path: path.name)
def test_shipped_plans_fit_the_schema_in_any_editor(path: Path) -> None:
    """The shipped plans validate with plain jsonschema and PyYAML, as editors see them."""
    jsonschema.Draft202012Validator(schema_of_plans()).validate(yaml.safe_load(path.read_text(encoding="utf-8")))


def test_the_plan_of_nulls_fits_the_schema_in_any_editor() -> None:
    """What planc accepts as null an editor accepts too."""
    jsonschema.Draft202012Validator(schema_of_plans()).validate(yaml.safe_load(NULLABLE))


def records() -> list[type]:
    """The records of spec.py that describe a plan file."""
    found = [item for item in vars(spec).values() if is_dataclass(item) and isinstance(item, type)]
    return [item for item in found if item.__module__ == "planc.spec" and issubclass(item, Node)]


@pytest.mark.parametrize("record", records(), ids=lambda record: record.__name__)
def test_every_field_of_the_plan_is_documented(record: type) -> None:
    """Each field of each record has a string under it that is a sentence, and no two fields share one."""
    documentation = schema.documentation(record)
    names = [key_of(item.name) for item in fields(record) if item.name != "at"]
    assert list(documentation) == names
    assert all(text[0].isupper() or text[0] == "`" for text in documentation.values()), documentation
    assert all(text.endswith(".") for text in documentation.values()), documentation
    assert len(set(documentation.values())) == len(names)


def test_every_record_is_reachable_from_the_plan_file() -> None:
    """No record of spec.py is left out of the schema."""
    assert set(records()) - set(schema.plan_records()) == set()


def test_every_description_of_the_schema_is_there() -> None:
    """Every property of the schema has a description, for editors to show."""

    def bare(node: Any, path: str = "") -> Iterator[str]:
        if isinstance(node, dict):
            for key, item in node.get("properties", {}).items():
                if not item.get("description"):
                    yield f"{path}.{key}"
            for key, item in node.items():
                yield from bare(item, f"{path}.{key}")

    assert list(bare(schema_of_plans())) == []


# Mutated data

RICH = """\
version: 1
model: {pipeline: Flux2KleinPipeline, checkpoint: black-forest-labs/FLUX.2-klein-4B, dtype: bfloat16}
call: {prompt: a dog, num_inference_steps: 4, sigmas: [1.0, 0.5]}
seed: 0
shapes: [{height: 1024, width: 1024, text_tokens: 512, batch: 1}]
components: {text_encoder: {placement: cpu}, vae: {tiling: true, dtype: float32}}
targets:
  a:
    device: cuda
    mode: compiled
    compile: {scope: repeated_blocks, fullgraph: true, dynamic: false, backend: inductor, mode: max, options: {a: 1}}
    launch: {nnodes: 1, timeout: 60, env: {A: "1"}}
    tensor_parallel:
      degree: 4
      plan:
        transformer_blocks.*.attn.to_q: colwise
        transformer_blocks.0.attn.to_out.0: rowwise
        transformer_blocks.*.ff.linear_in: {style: packed_colwise, blocks: [1, 1]}
        single_transformer_blocks.*.attn.to_out: packed_rowwise
  b: {extends: a, device: neuron, hardware: {instance: trn2.48xlarge, lnc: 2}, cache_dir: /var/lib/neff, launch: null}
  c: {extends: b, mode: eager, compile: null, tensor_parallel: {degree: 8}, call: {prompt: a cat}, seed: 7}
  d:
    device: cpu
    mode: eager
    tensor_parallel: {degree: 2, plan: class, divided_attributes: [a], sliced_arguments: {a: {b: {c: 1}}}}
    context_parallel: {ulysses_degree: 2, plan: {rope: {"0": {split_dim: 1}}, proj_out: {gather_dim: 1}}}
    scheduler: {class: S, config: {shift: 3.0}}
    model: {checkpoint: my/own}
"""

PIECES: st.SearchStrategy[Any] = st.sampled_from(
    (
        *(None, True, False, 0, 1, 2, 3, 5, -1, 8.0, 1.5, 10**20, "", "class", "shipped", "cpu", "neuron", "eager"),
        *(
            "colwise",
            "packed_colwise",
            "a",
            "b",
            "x_embedder",
            "transformer",
            "*",
            "²",
            "a\0b",
            "\n",
            "../x",
            "float32",
        ),
        *("transformer_blocks.9.attn.to_q", "Flux2Pipeline", "black-forest-labs/FLUX.2-dev"),
        *([], [1], ["a"], [[]], {}, {"a": 1}, {"style": "packed_rowwise"}, {"degree": 2}, {"extends": "a"}),
        *({"height": 64, "width": 64}, {"0": {"split_dim": 0}}),
    )
)
KEYS = st.sampled_from(
    (
        *("a", "b", "c", "d", "e", "extends", "device", "mode", "plan", "degree", "compile", "call", "model", "env"),
        *(
            "shapes",
            "components",
            "vae",
            "transformer",
            "text_encoder",
            "tensor_parallel",
            "blocks",
            "style",
            "proj_out",
        ),
        *("transformer_blocks.².attn.to_q", "transformer_blocks.00.attn.to_q", "transformer_blocks.7.attn.to_q"),
        "single_transformer_blocks.*.attn.to_out",
    )
)


def places(data: Any) -> Iterator[tuple[Any, Any]]:
    """Every container and key of the data."""
    if isinstance(data, dict | list):
        for key in list(data) if isinstance(data, dict) else range(len(data)):
            yield data, key
            yield from places(data[key])


@st.composite
def mutations(draw: st.DrawFn) -> dict[str, Any]:
    """The data of a rich plan with a few values replaced, removed, added or moved."""
    data: dict[str, Any] = yaml.safe_load(RICH)
    for _ in range(draw(st.integers(1, 3))):
        found = list(places(data))
        container, key = found[draw(st.integers(0, len(found) - 1))]
        match draw(st.sampled_from(["replace", "replace", "remove", "add", "copy"])):
            case "replace":
                container[key] = copy.deepcopy(draw(PIECES))
            case "remove":
                del container[key]
            case "add" if isinstance(container, dict):
                container[draw(KEYS)] = copy.deepcopy(draw(PIECES))
            case "copy":
                other, there = found[draw(st.integers(0, len(found) - 1))]
                container[key] = copy.deepcopy(other[there])
    return data


def document_of(data: Any) -> Document:
    """A document of plain data."""
    return Document("plan.yaml", "", Located.of(data))


@settings(max_examples=150, deadline=None, derandomize=True)
@given(data=mutations())
def test_what_the_shape_accepts_loads_and_is_ruled_on_without_raising(data: dict[str, Any]) -> None:
    """Data that passes the shape check never makes the loader or a rule raise, and what passes those resolves."""
    findings = Findings()
    document = document_of(data)
    shape.check(document, findings)
    if findings.has_errors:
        return
    plan = load.load(document, findings)
    assert (plan is None) == findings.has_errors
    if plan is None:
        return
    lookups = {name: lookup(item.model.checkpoint, item.model.pipeline) for name, item in plan.targets.items()}
    rules.check(plan, lookups, findings)
    if not findings.has_errors:
        lower.lower(plan, lookups)


@settings(max_examples=80, deadline=None, derandomize=True)
@given(data=mutations())
def test_the_shape_check_is_as_strict_as_the_schema(data: dict[str, Any]) -> None:
    """What plain JSON Schema refuses is never passed over: no error is lost on its way to a finding."""
    findings = Findings()
    shape.check(document_of(data), findings)
    if not jsonschema.Draft202012Validator(SCHEMA).is_valid(data):
        assert findings.has_errors


@settings(max_examples=300, deadline=None, derandomize=True)
@given(data=mutations())
def test_the_quick_test_agrees_with_the_validator(data: dict[str, Any]) -> None:
    """A plan that is found to conform without jsonschema is one in which jsonschema finds nothing, and no other is."""
    document = document_of(data)
    assert shape.conforms()(document.root.value) == shape.validator().is_valid(document.root.plain)


SCHEMA = schema_of_plans()
