"""Context records → text, through the templates. A variable that a record lacks is an error."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from planc import resources


@cache
def environment() -> Environment:
    """The template environment: no autoescape, as the output is code; blocks leave no blank lines behind."""
    return Environment(
        loader=FileSystemLoader(resources.folder("templates")),
        undefined=StrictUndefined,
        autoescape=False,  # noqa: S701  # the output is Python and shell, quoted by literal.py and shlex
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def render(template: str, context: Any) -> str:
    """The text of `template`, its variables the fields of the record `context`."""
    assert is_dataclass(context)
    return (
        environment()
        .get_template(template)
        .render({item.name: getattr(context, item.name) for item in fields(context)})
    )
