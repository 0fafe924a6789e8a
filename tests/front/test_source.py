"""YAML text → Document: every trap of YAML is a finding at its place, and every value knows where it was written."""

from __future__ import annotations

import os
import re
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from planc import source
from planc.diagnostics import Diagnostic, Findings, Span
from planc.faults import MAX_BYTES, MAX_DEPTH, MAX_NODES
from planc.located import Located
from planc.source import Document

Check = Callable[..., list[Diagnostic]]
Marked = Callable[[str], list[Diagnostic]]
WritePlan = Callable[..., Path]

PLAN = """\
version: 1
model: {pipeline: Flux2KleinPipeline, checkpoint: black-forest-labs/FLUX.2-klein-4B}
targets:
  eager: {device: cuda, mode: eager}
"""


def read(path: Path, findings: Findings) -> Document | None:
    """Read and parse a file."""
    text = source.read_text(str(path), findings)
    return None if text is None else source.parse(str(path), text, findings)


def parse(text: str) -> tuple[Document | None, list[Diagnostic]]:
    """The document of a text, and what was found in it."""
    findings = Findings()
    document = source.parse("plan.yaml", text, findings)
    return document, list(findings)


def value_of(text: str) -> Any:
    """The plain data of a text in which nothing is found."""
    document, found = parse(text)
    assert found == []
    assert document is not None
    return document.root.plain


def only(found: list[Diagnostic]) -> Diagnostic:
    """The one finding."""
    assert len(found) == 1, [f"{item.code} {item.span}" for item in found]
    return found[0]


def place(item: Diagnostic) -> tuple[str, int, int]:
    """Code, line and column of a finding."""
    return item.code, item.span.line, item.span.column


def leaves(node: Located, path: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], Located]]:
    """Every scalar below `node`, with its path."""
    if isinstance(node.value, dict):
        for key, item in node.value.items():
            yield from leaves(item, (*path, key))
    elif isinstance(node.value, tuple):
        for index, item in enumerate(node.value):
            yield from leaves(item, (*path, index))
    else:
        yield path, node


def cut(text: str, span: Span) -> str:
    """What stands at a span."""
    lines = re.split("\r\n|[\r\n]", text)[span.line - 1 : span.end_line]
    lines[-1] = lines[-1][: span.end_column - 1]
    lines[0] = lines[0][span.column - 1 :]
    return "\n".join(lines)


AMBIGUOUS = (
    *("yes", "Yes", "YES", "no", "No", "NO", "on", "On", "ON", "off", "Off", "OFF", "y", "Y", "n", "N"),
    *("1:30", "-1:30", "12:30:45", "1:30.5", "017", "-017", "08", "00", "0o17", "0x1F", "0b11", "1_000", "1_000.5"),
    *("2024-01-31", "2024-1-3", "2024-01-31 12:30:45", "2024-01-31T12:30:45Z"),
    *(".inf", "-.inf", "+.INF", ".nan", ".NaN"),
)


@pytest.mark.parametrize("text", AMBIGUOUS)
def test_what_yaml_versions_read_differently_is_refused_where_it_stands(marked: Marked, text: str) -> None:
    """An unquoted value that YAML 1.1 and 1.2 read differently is P011 on exactly its characters."""
    found = marked(f"a:\n  - b: {{c: ⟦P011 {text}⟧}}\n")
    assert f"`{text}`" in only(found).message


@pytest.mark.parametrize("text", ["1e3", "1E3", "1.5e3", "1e-3", "1e+3", "-1e3", ".5e3"])
def test_exponents_that_yaml_1_1_takes_for_text_are_refused(marked: Marked, text: str) -> None:
    """A float with an exponent but without dot or sign is text in YAML 1.1 and a number in 1.2, so it is P011."""
    marked(f"a: ⟦P011 {text}⟧\n")


@pytest.mark.parametrize("text", ["-.5", "+.5", "-.5e-3", "0._", "1_0.5", "1.5_0"])
def test_floats_that_pyyaml_reads_otherwise_are_refused(marked: Marked, text: str) -> None:
    """A signed float that starts with its dot is text to PyYAML, one with underscores a number: both are P011."""
    marked(f"a: ⟦P011 {text}⟧\n")


@pytest.mark.parametrize("text", ["017", "0o17", "0x1F", ".inf", "-.inf", ".nan"])
def test_p011_claims_nothing_false_about_yaml_1_2(check: Check, text: str) -> None:
    """What YAML 1.2 too reads as a number is not said to be text in YAML 1.2."""
    item = only(check(f"a: {text}\n"))
    assert "text in YAML 1.2" not in item.message


def test_every_ambiguous_value_of_a_file_is_reported_at_once(marked: Marked) -> None:
    """Ambiguous values do not stop the reading."""
    marked("a: ⟦P011 off⟧\nb: [⟦P011 017⟧, 17, ⟦P011 1:30⟧]\n? c\n:\n  ⟦P011 2024-01-31⟧\n")


@pytest.mark.parametrize("text", AMBIGUOUS)
def test_quoting_an_ambiguous_value_makes_it_text(text: str) -> None:
    """In quotes, in a block or as a key, the same characters are text and nothing is found."""
    assert value_of(f"a: '{text}'\nb: \"{text}\"\nc: |-\n  {text}\n'{text}': k\n") == {
        "a": text,
        "b": text,
        "c": text,
        text: "k",
    }


def test_ambiguous_keys_are_text() -> None:
    """Keys are always text, so `on:` and `1:` are no traps."""
    assert value_of("on: 1\n1: 2\n017: 3\nnull: 4\ntrue: 5\n") == {"on": 1, "1": 2, "017": 3, "null": 4, "true": 5}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("7", 7),
        ("-7", -7),
        ("+7", 7),
        ("0", 0),
        ("1.5", 1.5),
        ("-0.5", -0.5),
        ("1.0e+20", 1e20),
        ("1.0e-06", 1e-6),
        ("true", True),
        ("False", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("yesterday", "yesterday"),
        ("nOn", "nOn"),
        ("1.2.3", "1.2.3"),
        ("trn2.48xlarge", "trn2.48xlarge"),
        ("12 monkeys", "12 monkeys"),
        ("10:75:99", "10:75:99"),
        ("1:", {"1": None}),
        ("infinity", "infinity"),
    ],
)
def test_plain_scalars_have_the_values_of_the_core_schema(text: str, value: Any) -> None:
    """What both YAML versions agree on is read by the core schema of YAML 1.2."""
    got = value_of(f"a:\n  {text}\n")["a"]
    assert (type(got), got) == (type(value), value)


@pytest.mark.parametrize("digits", [39, 40, 60, 4000])
def test_long_whole_numbers_stay_numbers(digits: int) -> None:
    """A whole number is a number however many digits it has."""
    assert value_of(f"a: {'9' * digits}\n") == {"a": int("9" * digits)}


def test_a_number_too_long_to_convert_is_no_crash() -> None:
    """More digits than Python converts end in a value or a finding, never in an exception."""
    parse(f"a: {'9' * 5000}\n")


@pytest.mark.parametrize("text", ["1.0e+400", "-1.0e+400"])
def test_a_float_that_overflows_is_refused_as_infinity_is(text: str) -> None:
    """A float too large for a double does not become infinity silently."""
    assert parse(f"a: {text}\n")[1]


@pytest.mark.parametrize(
    "text",
    [
        "a: 1\nb: 2\n⟦P009 a⟧: 3\n",
        "a: 1\n⟦P009 'a'⟧: 3\n",
        "x:\n  a: 1\n  ⟦P009 a⟧: {a: 2, b: 3, ⟦P009 b⟧: 4}\n",
        "? a\n: 1\n? ⟦P009 a⟧\n: 2\n",
        "1: a\n⟦P009 '1'⟧: b\n",
        "a: 1\n⟦P009 a⟧: 2\n⟦P009 a⟧: 3\n",
    ],
)
def test_a_key_that_stands_twice_is_reported_at_the_second(marked: Marked, text: str) -> None:
    """A duplicate key is P009 at each repetition, in block and flow, quoted or not."""
    marked(text)


def test_a_duplicate_key_names_the_first_line(marked: Marked) -> None:
    """The message of P009 says the line of the first one."""
    assert "line 2" in only(marked("x: 1\na: 1\n⟦P009 a⟧: 2\n")).message


@pytest.mark.parametrize(
    "text",
    [
        "a: &a {x: 1}\nb:\n  ⟦P010 <<⟧: *a\n",
        "a: &a {x: 1}\nb: {⟦P010 <<⟧: *a, x: 2}\n",
        "a: &a {x: 1}\nb:\n  ⟦P010 <<⟧: [*a]\n",
    ],
)
def test_merge_keys_are_refused(marked: Marked, text: str) -> None:
    """YAML's `<<` is P010 at the key."""
    assert "extends" in str(only(marked(text)).hint)


def test_a_quoted_merge_key_is_a_key() -> None:
    """`"<<"` in quotes is text like any other key."""
    assert value_of("'<<': 1\n") == {"<<": 1}


@pytest.mark.parametrize(
    "text",
    [
        "a:\n⟦P008 \t⟧b: 1\n",
        "a:\n  b:\n  ⟦P008 \t⟧c: 1\n",
        "⟦P008 \t⟧a: 1\n",
        "a:\n  - x\n⟦P008 \t⟧- y\n",
    ],
)
def test_a_tab_in_the_indentation_is_reported_at_the_tab(marked: Marked, text: str) -> None:
    """A tab that indents is P008 on the tab itself."""
    marked(text)


@pytest.mark.parametrize(
    "text", ["a:\t1\n", "a: 1\t# comment\n", "a: {\n\tb: 1}\n", 'a: "x\ty"\n', "a: |\n  x\n  \ty\n"]
)
def test_a_tab_that_does_not_indent_is_no_finding(text: str) -> None:
    """Tabs between tokens, in flow collections and in text are YAML."""
    value_of(text)


@pytest.mark.parametrize(("text", "line", "column"), [("a: |\n    x\n    \ty\n]\n", 4, 1), ("a: {\n\tb: @x}\n", 2, 5)])
def test_an_innocent_tab_does_not_hide_what_is_wrong(text: str, line: int, column: int) -> None:
    """A tab in the text of a block scalar, or in a flow collection, is not blamed for an error after it."""
    assert place(only(parse(text)[1])) == ("P007", line, column)


def bomb(base: int = 10, levels: int = 9) -> str:
    """The billion laughs."""
    lines = ["a0: &a0 [" + ", ".join(["lol"] * base) + "]"]
    lines += [f"a{level}: &a{level} [" + ", ".join([f"*a{level - 1}"] * base) + "]" for level in range(1, levels)]
    return "\n".join(lines) + "\n"


def test_an_alias_bomb_is_refused_quickly() -> None:
    """A billion laughs are P005 at an alias, in well under a second and a few megabytes."""
    tracemalloc.start()
    before = time.process_time()
    document, found = parse(bomb())
    seconds, peak = time.process_time() - before, tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert document is None
    assert only(found).code == "P005"
    assert (seconds < 0.5, peak < 20_000_000) == (True, True), (seconds, peak)


def test_values_without_aliases_are_counted_too() -> None:
    """More values than any plan has are P005."""
    assert only(parse("[" + "x, " * (MAX_NODES + 10) + "]")[1]).code == "P005"


def test_aliases_in_moderation_are_accepted() -> None:
    """An alias stands for what its anchor holds."""
    text = "a: &a {x: 1, y: [2, &z 3]}\nb: *a\nc: [*a, *z]\n"
    assert value_of(text) == {"a": {"x": 1, "y": [2, 3]}, "b": {"x": 1, "y": [2, 3]}, "c": [{"x": 1, "y": [2, 3]}, 3]}


def test_a_whole_plan_may_use_an_alias(check: Check) -> None:
    """A plan whose targets share a value by anchor has no findings."""
    assert (
        check(
            "version: 1\n"
            "model: &m {pipeline: Flux2KleinPipeline, checkpoint: black-forest-labs/FLUX.2-klein-4B}\n"
            "targets:\n"
            "  a: &a {device: cuda, mode: eager}\n"
            "  b: *a\n"
            "  c: {extends: a, model: *m}\n"
        )
        == []
    )


def test_what_an_alias_stands_for_knows_both_places() -> None:
    """The key of an aliased value is where it was used; the value is where it was written."""
    document, _ = parse("a: &a 5\nb: *a\n")
    assert document is not None
    node = document.root.value["b"]
    assert (node.key_span.line, node.span.line) == (2, 1)


def test_an_anchor_may_be_given_again() -> None:
    """An alias means the last anchor of its name before it, as YAML says."""
    assert value_of("a: &x 1\nb: *x\nc: &x 2\nd: *x\n") == {"a": 1, "b": 1, "c": 2, "d": 2}


@pytest.mark.parametrize("text", ["a: &c {b: ⟦P006 *c⟧}\n", "&c [1, ⟦P006 *c⟧]\n", "a: &c\n  b:\n    - ⟦P006 *c⟧\n"])
def test_an_alias_inside_its_own_anchor_is_refused(marked: Marked, text: str) -> None:
    """A value that contains itself is P006 at the alias."""
    marked(text)


def test_nesting_is_accepted_up_to_its_limit() -> None:
    """Exactly MAX_DEPTH levels are read; one more is P006 at the value too deep."""
    deepest = MAX_DEPTH
    value_of("[" * deepest + "x" + "]" * deepest)
    item = only(parse("[" * (deepest + 1) + "x" + "]" * (deepest + 1))[1])
    assert place(item) == ("P006", 1, deepest + 2)


@pytest.mark.parametrize("opening", ["[", "{a: ", "- ", "[{a: "])
@pytest.mark.parametrize("times", [100, 900, 5_000, 100_000])
def test_nesting_thousands_deep_is_refused_as_too_deep(opening: str, times: int) -> None:
    """Any deep nesting is P006, quickly and without running out of stack."""
    before = time.process_time()
    item = only(parse(opening * times)[1])
    assert item.code == "P006"
    assert time.process_time() - before < 1


def test_aliases_cannot_nest_deeper_than_the_limit(check: Check) -> None:
    """Depth counts with aliases expanded: what would overflow the stack later is P006 here."""
    lines = ["a0: &a0 " + "[" * 25 + "]" * 25]
    lines += [f"a{level}: &a{level} " + "[" * 25 + f"*a{level - 1}" + "]" * 25 for level in range(1, 34)]
    assert {item.code for item in check("\n".join(lines) + "\n")} == {"P006"}


@pytest.mark.parametrize(
    ("data", "line", "column", "byte"),
    [
        (b"a: caf\xe9\n", 1, 7, "0xe9"),
        (b"a: 1\nb: \xff\xfe\n", 2, 4, "0xff"),
        ("a: é日😀".encode() + b"\x80\n", 1, 7, "0x80"),
        ("a: 1\r\nb: é".encode() + b"\xc3\n", 2, 5, "0xc3"),
        ("\ufeffa: 1\nb: x".encode() + b"\xe9\n", 2, 5, "0xe9"),
        ("\ufeffa: ".encode() + b"\xe9\n", 1, 4, "0xe9"),
        ("a: b\n".encode("utf-16"), 1, 1, "0xff"),
        (b"a: \xed\xa0\x80\n", 1, 4, "0xed"),
    ],
)
def test_bytes_that_are_not_utf8_are_reported_at_their_character(
    check: Check, data: bytes, line: int, column: int, byte: str
) -> None:
    """P002 points at the first bad byte, in characters, with or without a byte order mark, and names it."""
    item = only(check(data))
    assert (*place(item), byte in item.message) == ("P002", line, column, True)


def test_a_byte_order_mark_is_accepted(check: Check) -> None:
    """A plan saved with a byte order mark reads as one without, columns included."""
    assert check(b"\xef\xbb\xbf" + PLAN.encode()) == []
    assert place(only(check(b"\xef\xbb\xbf" + b"version: off\n"))) == ("P011", 1, 10)


@pytest.mark.parametrize("char", ["\x00", "\x07", "\x1b", "\x7f", "\x80", "\x9b", "\ufffe"])
@pytest.mark.parametrize("before", ["", "x", "é", "日本", "😀"])
def test_control_characters_are_reported_at_their_character(check: Check, char: str, before: str) -> None:
    """A character that YAML does not allow is P002 at its line and column, whatever stands before it."""
    item = only(check(f'# é\na: "{before}{char}"\n'))
    assert place(item) == ("P002", 2, 5 + len(before))


@pytest.mark.parametrize("char", ["\x85", "\u2028", "\u2029"])
@pytest.mark.parametrize("frame", ["# x{}y: 1\nfoo: off\n", "a: 'x{}y'\nfoo: off\n"])
def test_what_ends_a_line_in_yaml_1_1_only_is_refused_or_ends_none(check: Check, char: str, frame: str) -> None:
    """A separator that YAML 1.2 and editors take for no line end neither ends a comment nor moves the lines below."""
    places = {place(item) for item in check(frame.format(char))}
    assert places in ({("P002", 1, frame.index("{") + 1)}, {("P011", 2, 6)})


def test_a_carriage_return_ends_a_line(check: Check) -> None:
    """A lone carriage return counts as a line end, as YAML says."""
    assert [place(item) for item in check("a: 1\r# x\rfoo: off\r")] == [("P011", 3, 6)]


@pytest.mark.parametrize("text", ["", " ", "\n\n", "# only\n# comments\n", "---\n", "---\n...\n", "~\n", "null\n"])
def test_a_file_without_a_value_is_empty(text: str) -> None:
    """No value, only comments and null alike are P003."""
    document, found = parse(text)
    assert document is None
    assert only(found).code == "P003"


@pytest.mark.parametrize(
    "text",
    [
        PLAN + "⟦P004 ---⟧\na: 1\n",
        PLAN + "...\n⟦P004 ---⟧\n",
        "---\n⟦P004 ---⟧\n" + PLAN,
        "--- {}\n⟦P004 ---⟧ x\n---\n",
    ],
)
def test_a_second_document_is_refused_where_it_starts(marked: Marked, text: str) -> None:
    """Each file holds one document; P004 stands at the second `---`."""
    marked(text)


@pytest.mark.parametrize("text", ["---\n" + PLAN, PLAN + "...\n", "%YAML 1.2\n---\n" + PLAN + "...\n# end\n"])
def test_the_marks_of_one_document_are_accepted(check: Check, text: str) -> None:
    """`---`, `...` and a YAML directive round the one document are no findings."""
    assert check(text) == []


def test_a_file_at_the_limit_is_read_and_one_above_is_not(check: Check) -> None:
    """A plan of exactly MAX_BYTES is read; one byte more is P005 with both numbers."""
    assert check(PLAN + "#" * (MAX_BYTES - len(PLAN))) == []
    item = only(check(PLAN + "#" * (MAX_BYTES - len(PLAN) + 1)))
    assert place(item) == ("P005", 1, 1)
    assert "1,048,576" in item.message


def test_a_huge_file_is_refused_without_reading_it(write_plan: WritePlan) -> None:
    """P005 costs no memory: the file is not read whole before its size is looked at."""
    path = write_plan("")
    os.truncate(path, 256 << 20)
    findings = Findings()
    tracemalloc.start()
    assert read(path, findings) is None
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [item.code for item in findings] == ["P005"]
    assert peak < 16 << 20


def unreadable(path: Path) -> Diagnostic:
    """The one finding of a path that cannot be read."""
    findings = Findings()
    assert read(path, findings) is None
    item = only(list(findings))
    assert (item.code, item.span) == ("P001", Span(str(path), 1, 1, 1, 1))
    return item


def test_a_missing_file_is_reported_with_its_path(tmp_path: Path) -> None:
    """A plan that does not exist is P001, and the hint says how to get one."""
    item = unreadable(tmp_path / "no.yaml")
    assert item.message == f"cannot read {tmp_path / 'no.yaml'}: No such file or directory"
    assert item.hint == "`planc init` writes a first plan"


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    """Reading a folder is P001."""
    assert unreadable(tmp_path).message == f"cannot read {tmp_path}: Is a directory"


def test_a_link_to_itself_is_reported(tmp_path: Path) -> None:
    """A link that leads nowhere is P001."""
    (tmp_path / "loop.yaml").symlink_to(tmp_path / "loop.yaml")
    unreadable(tmp_path / "loop.yaml")


def test_a_file_that_may_not_be_opened_is_reported(write_plan: WritePlan) -> None:
    """A plan without read permission is P001."""
    path = write_plan(PLAN)
    path.chmod(0)
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(65534)
    try:
        item = unreadable(path)
    finally:
        if is_root:
            os.seteuid(0)
        path.chmod(0o600)
    assert item.message == f"cannot read {path}: Permission denied"


@pytest.mark.parametrize(
    "text",
    [
        "a: ⟦P012 !!int 7⟧\n",
        "a: ⟦P012 !!str x⟧\n",
        "a: ⟦P012 !mine x⟧\n",
        "a: [⟦P012 !!python/object/apply:os.system ''⟧]\n",
        "a: ⟦P012 !!binary aGk=⟧\n",
        "a: ⟦P012 *nowhere⟧\n",
    ],
)
def test_tags_and_dangling_aliases_are_refused(marked: Marked, text: str) -> None:
    """An explicit tag and an alias without anchor are P012 where they stand."""
    marked(text)


@pytest.mark.parametrize("text", ["a: !!map {b: 1}\n", "a: !!seq [1]\n", "a: !!set {b}\n", "!!map\na: 1\n"])
def test_tags_of_collections_are_refused(text: str) -> None:
    """A tag on a mapping or list is P012 too."""
    assert only(parse(text)[1]).code == "P012"


@pytest.mark.parametrize("text", ["!!binary a: 1\n", "!!python/name:os.system a: 1\n", "!mine a: 1\n"])
def test_tags_of_keys_are_refused(text: str) -> None:
    """A tag on a key is P012 as on a value."""
    assert only(parse(text)[1]).code == "P012"


@pytest.mark.parametrize("text", ["7", "'7'", '"7"'])
def test_the_non_specific_tag_makes_no_number_of_text(text: str) -> None:
    """The tag `!` is refused as other tags are, or says what quotes say: never does it unquote."""
    document, found = parse(f"a: ! {text}\n")
    assert document is None or document.root.plain == {"a": "7"}
    assert {item.code for item in found} <= {"P012"}


@pytest.mark.parametrize(
    "text", ["? [a, b]\n: 1\n", "{a: b}: 1\n", "x: {[a]: 1}\n", "? - a\n: 1\n", "a: &a x\n*a : 1\n"]
)
def test_a_key_that_is_no_text_is_refused(text: str) -> None:
    """A list, mapping or alias as key is P012."""
    assert only(parse(text)[1]).code == "P012"


def test_explicit_text_keys_are_accepted() -> None:
    """`? key` with text is a key like any other."""
    assert value_of("? a\n: 1\n? |-\n  b\n: 2\n") == {"a": 1, "b": 2}


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("a: [1, 2\nb: 3\n", 2, 2),
        ("a: 'x\n", 2, 1),
        ("a: {b: 1\n", 2, 1),
        ("a: 1\n  b: 2\n", 2, 4),
        ("a: @x\n", 1, 4),
        ("é日: [x, `y]\n", 1, 9),
        ("%YAML 3.0\n---\na: 1\n", 1, 1),
        ("a: !e!foo x\n", 1, 4),
        ("a: 1\n]\n", 2, 1),
    ],
)
def test_a_syntax_error_is_reported_where_the_parser_gave_up(text: str, line: int, column: int) -> None:
    """What is not YAML is P007 at a place inside the text."""
    assert place(only(parse(text)[1])) == ("P007", line, column)


def test_lines_that_end_in_crlf_keep_their_numbers(check: Check) -> None:
    """A plan with CRLF ends reads as with LF ends, and its findings have the same places."""
    assert check(PLAN.replace("\n", "\r\n")) == []
    text = "a: |\n  x\n  y\nb: off\nc: 'l\n  m'\nd: [1,\n  017]\n"
    unix, dos = check(text), check(text.replace("\n", "\r\n"))
    assert [place(item) for item in unix] == [("P011", 4, 4), ("P011", 8, 3)]
    assert [(item.span, item.message) for item in unix] == [(item.span, item.message) for item in dos]


def test_crlf_does_not_reach_values() -> None:
    """Text over several lines has LF ends whatever the file has."""
    assert value_of("a: |\r\n  x\r\n  y\r\n") == {"a": "x\ny\n"}


def test_columns_count_characters(marked: Marked) -> None:
    """Columns are characters, not bytes and not UTF-16 units."""
    marked('{"é日😀": "e\u0301", b: ⟦P011 off⟧}\n')


SPANS = """\
plain: some words
number: -12.5
'single': 'it''s'
"double": "a \\"b\\" \\u00e9"
empty:
null: ~
flow: {a: 1, "b": [x, 'y z'], c: }
list:
  - one
  - two words   # comment
  - - nested
    - true
multi: first
  second
  third
quoted: "first
  second"
😀: 日本
after: 😀 end
anchored: &here word
deep:
  deeper: {deepest: [[0]]}
"""

WRITTEN: dict[tuple[str | int, ...], str] = {
    ("plain",): "some words",
    ("number",): "-12.5",
    ("single",): "'it''s'",
    ("double",): '"a \\"b\\" \\u00e9"',
    ("empty",): "",
    ("null",): "~",
    ("flow", "a"): "1",
    ("flow", "b", 0): "x",
    ("flow", "b", 1): "'y z'",
    ("flow", "c"): "",
    ("list", 0): "one",
    ("list", 1): "two words",
    ("list", 2, 0): "nested",
    ("list", 2, 1): "true",
    ("multi",): "first\n  second\n  third",
    ("quoted",): '"first\n  second"',
    ("😀",): "日本",
    ("after",): "😀 end",
    ("anchored",): "&here word",
    ("deep", "deeper", "deepest", 0, 0): "0",
}


def test_every_scalar_knows_where_it_was_written() -> None:
    """The text at a scalar's span is what was written there, quotes included."""
    document, found = parse(SPANS)
    assert found == []
    assert document is not None
    assert {path: cut(SPANS, node.span) for path, node in leaves(document.root)} == WRITTEN


def test_every_key_knows_where_it_was_written() -> None:
    """The text at a key's span is the key as written, quotes included."""
    document, _ = parse(SPANS)
    assert document is not None
    root = document.root
    keys = [cut(SPANS, item.key_span) for item in root.value.values() if item.key_span]
    assert keys == [line.split(":")[0] for line in SPANS.splitlines() if line[0] not in " -"]
    assert [cut(SPANS, root.value["flow"].value[key].key_span) for key in "abc"] == ["a", '"b"', "c"]


def test_flow_collections_know_where_they_end() -> None:
    """The span of a flow collection goes from its opening to its closing bracket."""
    document, _ = parse(SPANS)
    assert document is not None
    flow = document.root.value["flow"]
    assert cut(SPANS, flow.span) == "{a: 1, \"b\": [x, 'y z'], c: }"
    assert cut(SPANS, flow.value["b"].span) == "[x, 'y z']"


def test_block_scalars_start_where_they_were_written() -> None:
    """The span of a block scalar starts at its `|` or `>` and covers its lines."""
    text = "a: |\n  one\n  two\nb: >-\n  three\n\n  four\nc: 1\n"
    document, _ = parse(text)
    assert document is not None
    assert document.root.plain == {"a": "one\ntwo\n", "b": "three\nfour", "c": 1}
    assert cut(text, document.root.value["a"].span).startswith("|\n  one\n  two")
    assert cut(text, document.root.value["b"].span).startswith(">-\n  three\n\n  four")
    assert document.root.value["c"].span.line == 8


def test_the_text_of_a_document_is_what_was_written(write_plan: WritePlan) -> None:
    """A document keeps its path as given and its text without the byte order mark."""
    path = write_plan(b"\xef\xbb\xbf" + PLAN.encode())
    document = read(path, Findings())
    assert document is not None
    assert (document.path, document.text) == (str(path), PLAN)
