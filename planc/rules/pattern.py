"""What diffusers asks of a wildcard, for both kinds of plan."""

from __future__ import annotations

from collections.abc import Iterator

from planc.catalog import sharding
from planc.catalog.card import Card
from planc.diagnostics import Span
from planc.rules.case import Hit


def wildcard_faults(card: Card, pattern: str, span: Span) -> Iterator[Hit]:
    """More than one `*`, or one that does not stand for the blocks of a ModuleList."""
    stars = pattern.count("*")
    if stars == 0:
        return
    if stars > 1:
        yield Hit(
            span=span,
            message=f"`{pattern}` has {stars} wildcards; a pattern takes one",
            hint="write one entry for each module below the block",
        )
        return
    prefix, _, suffix = pattern.partition("*")
    path = prefix.rstrip(".")
    is_alone = prefix.endswith(".") and (not suffix or suffix.startswith("."))
    if is_alone and sharding.module_list(card.inventory, path) is not None:
        return
    lists = [known for known in card.inventory.module_lists if "*" not in known]
    yield Hit(
        span=span,
        message=f"the wildcard of `{pattern}` does not stand for the blocks of a ModuleList",
        notes=(f"ModuleLists of {card.class_name}: {', '.join(lists)}",),
        hint=f"write `{lists[0]}.*.…`" if lists else "write the modules out",
    )
