"""Templates and their context records say the same variables."""

from __future__ import annotations

import types
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

import pytest
from jinja2 import DictLoader, Environment, UndefinedError, meta, nodes

from planc.emit import context, render

RECORDS: dict[str, type] = {
    "script.py.j2": context.ScriptContext,
    "plans.py.j2": context.PlansContext,
    "launch.sh.j2": context.LaunchContext,
    "plan.yaml.j2": context.PlanContext,
}
"""The record of each template that is rendered by itself."""
PARTIALS = {"cpu_mesh.py.j2"}
"""Templates that others include."""


def trees(environment: Environment, template: str) -> Iterator[nodes.Template]:
    """The syntax tree of a template, and of those it includes."""
    assert environment.loader is not None
    tree = environment.parse(environment.loader.get_source(environment, template)[0])
    yield tree
    for include in tree.find_all(nodes.Include):
        assert isinstance(include.template, nodes.Const), f"{template} includes by a variable"
        yield from trees(environment, include.template.value)


def variables(environment: Environment, template: str) -> set[str]:
    """What the template needs from its context, its includes' needs among them."""
    return {name for tree in trees(environment, template) for name in meta.find_undeclared_variables(tree)}


def misfits(environment: Environment, template: str, record: type) -> list[str]:
    """Everything in which a template and its record disagree, the fields of nested records included."""
    known = {item.name for item in fields(record)}
    wanted = variables(environment, template)
    found = [f"{template} uses `{name}`, which {record.__name__} lacks" for name in sorted(wanted - known)]
    found += [f"{record.__name__}.{name} is not used by {template}" for name in sorted(known - wanted)]
    used: dict[type, set[str]] = {}
    for tree in trees(environment, template):
        _walk(tree, dict(get_type_hints(record)), used, found)
    for nested, names in used.items():
        unused = {item.name for item in fields(nested)} - names
        found += [f"{nested.__name__}.{name} is not used by {template}" for name in sorted(unused)]
    return found


def _walk(node: nodes.Node, scope: dict[str, Any], used: dict[type, set[str]], found: list[str]) -> None:
    if isinstance(node, nodes.For):
        inner = dict(scope)
        element = _element(_type(node.iter, scope))
        targets = node.target.items if isinstance(node.target, nodes.Tuple) else [node.target]
        parts = get_args(element) if isinstance(node.target, nodes.Tuple) else (element,)
        assert len(parts) == len(targets), f"line {node.lineno}: {element} does not unpack into {len(targets)}"
        for target, part in zip(targets, parts, strict=True):
            assert isinstance(target, nodes.Name)
            inner[target.name] = part
        for child in node.iter_child_nodes():
            _walk(child, inner, used, found)
        return
    if isinstance(node, nodes.Getattr):
        owner = _type(node.node, scope)
        if not (isinstance(owner, type) and is_dataclass(owner)):
            found.append(f"line {node.lineno}: `.{node.attr}` of {owner}, which is no record")
        elif node.attr not in {item.name for item in fields(owner)}:
            found.append(f"line {node.lineno}: {owner.__name__} has no field `{node.attr}`")
        else:
            used.setdefault(owner, set()).add(node.attr)
    for child in node.iter_child_nodes():
        _walk(child, scope, used, found)


def _type(node: nodes.Node, scope: dict[str, Any]) -> Any:
    """The type of a name or of an attribute of one; None where the scope does not know it."""
    if isinstance(node, nodes.Name):
        found = scope.get(node.name)
        if get_origin(found) in (Union, types.UnionType):
            return next(arm for arm in get_args(found) if arm is not type(None))
        return found
    if isinstance(node, nodes.Getattr):
        owner = _type(node.node, scope)
        return get_type_hints(owner).get(node.attr) if isinstance(owner, type) and is_dataclass(owner) else None
    return None


def _element(hint: Any) -> Any:
    assert get_origin(hint) is tuple, f"a template loops over {hint}, which is no tuple"
    assert get_args(hint)[1] is ..., hint
    return get_args(hint)[0]


def test_every_template_has_its_record(root: Path) -> None:
    """Each template is rendered from a record of its own, or included by one that is."""
    assert {path.name for path in (root / "templates").iterdir()} == set(RECORDS) | PARTIALS
    included = {
        include.template.value
        for name in RECORDS
        for tree in trees(render.environment(), name)
        for include in tree.find_all(nodes.Include)
        if isinstance(include.template, nodes.Const)
    }
    assert included == PARTIALS
    assert set(RECORDS.values()) == {item for name, item in vars(context).items() if name.endswith("Context")}


@pytest.mark.parametrize("template", RECORDS)
def test_a_template_and_its_record_say_the_same(template: str) -> None:
    """The variables of a template, attributes of loop variables included, are exactly the fields of its record."""
    assert misfits(render.environment(), template, RECORDS[template]) == []


@pytest.mark.parametrize("template", RECORDS)
def test_a_template_holds_no_logic(template: str) -> None:
    """A template has variables, `for`, `if` and `include` only: no filters, calls, comparisons or assignments."""
    allowed = (
        nodes.Template,
        nodes.Output,
        nodes.TemplateData,
        nodes.Name,
        nodes.Getattr,
        nodes.For,
        nodes.If,
        nodes.Include,
        nodes.Const,
        nodes.Tuple,
    )
    for tree in trees(render.environment(), template):
        assert {type(node).__name__ for node in tree.find_all(nodes.Node) if not isinstance(node, allowed)} == set()


@dataclass(frozen=True)
class Item:
    """A nested record for the check of the check."""

    name: str
    spare: str


@dataclass(frozen=True)
class Context:
    """A record for the check of the check."""

    title: str
    items: tuple[Item, ...]
    pairs: tuple[tuple[str, str], ...]
    one: Item | None


def _with(text: str) -> list[str]:
    environment = render.environment().overlay()
    environment.loader = DictLoader({"t": text})
    return misfits(environment, "t", Context)


GOOD = (
    "{{ title }}{% for item in items %}{{ item.name }}{{ item.spare }}{% endfor %}"
    "{% for a, b in pairs %}{{ a }}{{ b }}{% endfor %}{% if one %}{{ one.name }}{% endif %}"
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (GOOD, []),
        (GOOD.replace("{{ title }}", ""), ["Context.title is not used by t"]),
        (GOOD + "{{ titel }}", ["t uses `titel`, which Context lacks"]),
        (GOOD.replace("{{ item.spare }}", ""), ["Item.spare is not used by t"]),
        (GOOD.replace("item.name", "item.nmae"), ["line 1: Item has no field `nmae`"]),
        (GOOD.replace("one.name", "one.nmae"), ["line 1: Item has no field `nmae`"]),
        (GOOD.replace("{{ title }}", "{{ title.upper }}"), ["line 1: `.upper` of <class 'str'>, which is no record"]),
    ],
)
def test_the_check_sees_a_misfit(text: str, expected: list[str]) -> None:
    """A template that says more, less or other than its record fails the check above."""
    assert _with(text) == expected


def test_a_lacking_variable_is_an_error_at_once() -> None:
    """Rendering a template from a record that lacks one of its variables raises, instead of leaving a gap."""

    @dataclass(frozen=True)
    class Short:
        target: str

    with pytest.raises(UndefinedError, match="plan_file"):
        render.render("launch.sh.j2", Short("tp"))


def test_what_a_record_holds_is_text_to_the_template() -> None:
    """A value that looks like template code is written as it is: values are never templates."""
    record = context.LaunchContext(
        target="{{ 1 + 1 }}", plan_file="{% raw %}", world_size=2, unit="{# x #}", script="s.sh", module="s"
    )
    text = render.render("launch.sh.j2", record)
    assert "`{{ 1 + 1 }}` of {% raw %}: 2 ranks, one {# x #} each." in text
