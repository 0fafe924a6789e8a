"""The files that are generated from planc's own sources: the schemas, and the reference pages of the docs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from planc import pipeline, schema, spec
from planc.catalog.card import Facts
from planc.catalog.devices import DEVICES
from planc.report import explanation

_NOTE = "<!-- Written by `planc sync`; change the source and run it again. -->"


def plan_page() -> str:
    """The reference of the plan format."""
    document = schema.plan_schema()
    parts = [
        "# The plan format",
        _NOTE,
        "A plan is one YAML file: one model, several targets. A field with a default may be left out or set to null, "
        "which restores the default. A target takes "
        + ", ".join(f"`{key}`" for key in spec.SHARED_KEYS)
        + " from the plan and all fields from the target it `extends`: mappings merge by key, lists and scalars replace.",
    ]
    for record in schema.plan_records():
        body = document if record is spec.PlanFile else _definition(document, record.__name__)
        parts.append(f"## {_title(record.__name__)}\n\n{body['description']}\n\n" + _table(body))
    return "\n\n".join(parts) + "\n"


def _definition(document: dict[str, Any], name: str) -> dict[str, Any]:
    definitions = document["$defs"]
    body: dict[str, Any] = definitions.get(name) or definitions[f"Partial{name}"]
    return body


def _title(name: str) -> str:
    return name[0] + "".join(f" {char.lower()}" if char.isupper() else char for char in name[1:])


def _table(body: dict[str, Any]) -> str:
    rows = ["| key | value | default | meaning |", "|---|---|---|---|"]
    for key, field in body["properties"].items():
        default = f"`{_shown(field['default'])}`" if "default" in field else ""
        rows.append(f"| `{key}` | {_kind(field)} | {default} | {field['description'].replace('|', '&#124;')} |")
    return "\n".join(rows)


def _shown(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _kind(field: dict[str, Any]) -> str:
    if "enum" in field:
        return ", ".join(f"`{value}`" for value in field["enum"] if value is not None)
    if "anyOf" in field:
        return " or ".join(_kind(arm) for arm in field["anyOf"] if arm != {"type": "null"})
    if "$ref" in field:
        name = _title(field["$ref"].rpartition("/")[2].removeprefix("Partial"))
        return f"[{name.lower()}](#{name.lower().replace(' ', '-')})"
    kinds = field.get("type", "any value")
    names = [
        _KINDS.get(str(kind), str(kind)) for kind in (kinds if isinstance(kinds, list) else [kinds]) if kind != "null"
    ]
    if names == ["list"]:
        return f"list of {_kind(field['items'])}"
    if names == ["mapping"]:
        return f"mapping to {_kind(field['additionalProperties'])}"
    least = f" ≥ {field['minimum']}" if "minimum" in field else ""
    return " or ".join(names) + least


_KINDS = {
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "true or false",
    "array": "list",
    "object": "mapping",
}


def rules_page() -> str:
    """The reference of the findings."""
    faults = pipeline.faults()
    rows = [
        f"| [{item.code}](#{item.code.lower()}-{item.name}) | `{item.name}` | {item.severity.value} | {explanation.summary(item)} |"
        for item in faults
    ]
    table = "\n".join(["| code | name | severity | what it does |", "|---|---|---|---|", *rows])
    pages = "\n\n".join(explanation.markdown(item) for item in faults)
    return f"# Findings\n\n{_NOTE}\n\n{table}\n\n{pages}\n"


def devices_page() -> str:
    """The table of devices: what a script says for each, and where that was seen."""
    rows = [
        "| device | a rank runs on one | process group | a rank's device | compile backend | cache of compiled graphs |"
    ]
    rows.append("|---" * 6 + "|")
    for row in DEVICES.values():
        cache = f"`{row.cache_variable}`" if row.cache_variable else "no variable known"
        own = row.rank_device.partition("  #")[0]
        rows.append(f"| `{row.name}` | {row.unit} | `{row.backend}` | `{own}` | `{row.compile_backend}` | {cache} |")
    more = []
    for row in DEVICES.values():
        refused = ["`dynamic: true`"] if row.refuses_dynamic else []
        refused += ["a compile mode or options"] if row.refuses_mode else []
        more.append(
            f"- **{row.name}**: prints the peak memory of the {row.peak_memory_of}"
            + (f"; refuses {' and '.join(refused)}" if refused else "")
            + f". Source: {row.source}."
        )
    parts = ["# Devices", _NOTE, "What a script says for a device: a row of `planc/catalog/devices.py`."]
    return "\n\n".join([*parts, "\n".join(rows), "\n".join(more)]) + "\n"


FILES: Mapping[str, Callable[[], str]] = {
    "schemas/plan.schema.json": lambda: schema.dump(schema.plan_schema()),
    "schemas/card.schema.json": lambda: schema.dump(schema.record_schema(Facts, "planc model card")),
    "docs/reference/plan-format.md": plan_page,
    "docs/reference/findings.md": rules_page,
    "docs/reference/devices.md": devices_page,
}
"""Each generated file of the checkout, and what makes its text."""
