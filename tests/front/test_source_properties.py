"""What holds of reading any text: data comes back as it was, spans point at it, and nothing ever raises."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from planc import pipeline, source
from planc.diagnostics import Findings, Span
from planc.located import Located

ROOT = Path(__file__).resolve().parents[2]
PLANS = {name: (ROOT / "plans" / name).read_text(encoding="utf-8") for name in ("flux2.yaml", "flux2-dev.yaml")}

SETTINGS = settings(max_examples=100, deadline=None, derandomize=True)

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
LIKE_A_NUMBER = st.text("0123456789.:_-+eExobinf", min_size=1, max_size=8)
WORDS = st.sampled_from(
    "y n yes no on off null ~ true 017 08 0o17 0x1F 1_000 1:30 1e3 1.e3 .5 5. .inf .nan 2024-01-31 << = - ? : # & * !"
    " 'x' @ ` % | > {} [] a:b #a -a ---".split(" ")
) | st.sampled_from(["", " ", "a b", " a", "a ", "a: b", "a #b", "a\nb", "\na", "a\n", "\t", "x" * 200, "x " * 100])
SCALARS = (
    TEXT
    | LIKE_A_NUMBER
    | WORDS
    | st.integers()
    | st.integers(min_value=10**38, max_value=10**60)
    | st.floats(allow_nan=False)
    | st.booleans()
    | st.none()
)
KEYS = TEXT | LIKE_A_NUMBER | WORDS
DATA = st.dictionaries(
    KEYS,
    st.recursive(
        SCALARS,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
        max_leaves=12,
    ),
    max_size=5,
)
"""Nested data with text as keys."""

READ_DIFFERENTLY = re.compile(r"[yYnN]|[-+]?[.0-9].*", re.DOTALL)
"""What a scalar must look like for the YAML versions to disagree on it once `safe_dump` left it unquoted."""

ODD_SEPARATORS = re.compile("[\x85\u2028\u2029]")
LINE_END = re.compile("\r\n|[\r\n]")
"""What YAML 1.2 and editors count as the end of a line."""


def cut(text: str, span: Span) -> str:
    """What stands at a span, which must lie within the text."""
    lines = LINE_END.split(text)
    assert 1 <= span.line <= span.end_line <= len(lines), span
    assert 1 <= span.column <= len(lines[span.line - 1]) + 1, span
    assert 1 <= span.end_column <= len(lines[span.end_line - 1]) + 1, span
    assert (span.line, span.column) <= (span.end_line, span.end_column), span
    found = lines[span.line - 1 : span.end_line]
    found[-1] = found[-1][: span.end_column - 1]
    found[0] = found[0][span.column - 1 :]
    return "\n".join(found)


def nodes(node: Located) -> Iterator[Located]:
    """The node and everything below it."""
    yield node
    if isinstance(node.value, dict | tuple):
        for item in node.value.values() if isinstance(node.value, dict) else node.value:
            yield from nodes(item)


def keys(node: Located) -> Iterator[tuple[str, Span | None]]:
    """Every key below the node, with its span."""
    for item in nodes(node):
        if isinstance(item.value, dict):
            yield from ((key, child.key_span) for key, child in item.value.items())


def differences(expected: Any, found: Any) -> Iterator[Any]:
    """The expected scalars in whose place something else was found, type included."""
    if isinstance(expected, dict) and isinstance(found, dict) and list(expected) == list(found):
        for key, item in expected.items():
            yield from differences(item, found[key])
    elif isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        for item, other in zip(expected, found, strict=True):
            yield from differences(item, other)
    elif (type(expected), expected) != (type(found), found):
        yield expected


@SETTINGS
@given(
    data=DATA, flow=st.sampled_from([True, False, None]), unicode=st.booleans(), width=st.sampled_from([20, 80, 999])
)
def test_dumped_data_comes_back_or_is_called_ambiguous(
    data: dict[str, Any], flow: bool | None, unicode: bool, width: int
) -> None:
    """What `yaml.safe_dump` wrote is read as it was; only what the YAML versions read differently is P011 instead."""
    text = yaml.safe_dump(data, default_flow_style=flow, allow_unicode=unicode, width=width, sort_keys=False)
    findings = Findings()
    document = source.parse("plan.yaml", text, findings)
    if ODD_SEPARATORS.search(text):
        return  # written raw: whether they are refused is another test's matter
    assert document is not None, [item.message for item in findings]
    assert {item.code for item in findings} <= {"P011"}
    ambiguous = [cut(text, item.span) for item in findings]
    assert all(READ_DIFFERENTLY.fullmatch(word) for word in ambiguous), ambiguous
    wrong = list(differences(data, document.root.plain))
    assert all(isinstance(item, float) and item in (float("inf"), -float("inf")) for item in wrong), wrong
    assert len(wrong) <= len(ambiguous)


@SETTINGS
@given(data=DATA, flow=st.sampled_from([True, False, None]), unicode=st.booleans(), width=st.sampled_from([20, 80]))
def test_every_span_points_at_its_key_or_value(
    data: dict[str, Any], flow: bool | None, unicode: bool, width: int
) -> None:
    """What stands at the span of a key, a scalar or a flow collection reads as that key or value by itself."""
    text = yaml.safe_dump(data, default_flow_style=flow, allow_unicode=unicode, width=width, sort_keys=False)
    if ODD_SEPARATORS.search(text):
        return
    findings = Findings()
    document = source.parse("plan.yaml", text, findings)
    assert document is not None
    for key, span in keys(document.root):
        assert span is not None
        assert next(item.value for item in yaml.parse(cut(text, span)) if isinstance(item, yaml.ScalarEvent)) == key
    ambiguous = {item.span for item in findings}
    for node in nodes(document.root):
        written = cut(text, node.span)
        if isinstance(node.value, dict | tuple):
            assert written == "" or written[0] + written[-1] in ("{}", "[]")
        elif node.span not in ambiguous and not re.fullmatch(r"[-+]?[.0-9]\S*", written):
            assert yaml.safe_load(written) == node.value
        elif isinstance(node.value, int | float):
            assert type(node.value)(written) == node.value


@settings(max_examples=400, deadline=None, derandomize=True)
@given(
    st.text("0123456789.:_-+eExobinfaINFEX", min_size=1, max_size=7).filter(
        lambda word: not re.search(r":$|^[-?:]$", word)
    )
)
def test_no_word_is_read_unlike_yaml_1_1_without_a_finding(word: str) -> None:
    """An unquoted word that PyYAML, a YAML 1.1 reader, takes for something else is P011."""
    try:
        elsewhere = yaml.safe_load(f"[{word}]")
    except (yaml.YAMLError, ValueError):
        return
    findings = Findings()
    document = source.parse("plan.yaml", f"[{word}]", findings)
    assert document is not None
    if not len(findings):
        found = document.root.plain
        assert (type(found[0]), found) == (type(elsewhere[0]), elsewhere)


YAML_LIKE = st.text(
    st.sampled_from("\n\n  \t\r-:?,[]{}&*!|>'\"%@`#ab019.~<=_\\xuU\ufeff\u2028\x85\x00\x1b\x7fé日😀"), max_size=60
)
FRAGMENTS = st.lists(
    st.sampled_from(
        (
            *("a: ", "- ", "\n", "  ", "&a ", "*a", "!!str ", "'", '"', "{", "}", "[", "]", ", ", "? ", "|\n", ">-\n"),
            *("# x\n", "---\n", "...\n", "<<: ", "%YAML 1.1\n", "off", "017", "\t", "\r\n", "\\x1b", "\\", "null", "é"),
            *("a", ": "),
        )
    ),
    max_size=40,
).map("".join)


@settings(max_examples=400, deadline=None, derandomize=True)
@given(YAML_LIKE | FRAGMENTS | st.text(max_size=60))
def test_any_text_gives_a_document_or_findings_within_it(text: str) -> None:
    """Reading never raises: there is a document or an error, and every span lies inside the text."""
    text = text.encode("utf-8", "replace").decode()
    findings = Findings()
    document = source.parse("plan.yaml", text, findings)
    assert (document is not None) or findings.has_errors
    for item in findings:
        cut(text, item.span)
    if document is not None:
        for node in nodes(document.root):
            cut(text, node.span)
            if node.key_span is not None:
                cut(text, node.key_span)


@pytest.fixture(scope="module")
def plan_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file to write plans to."""
    return tmp_path_factory.mktemp("plans") / "flux2.yaml"


def check_within(path: Path, data: bytes) -> None:
    """Check a plan of these bytes; every finding must lie within the file."""
    path.write_bytes(data)
    findings, texts = Findings(), dict[str, str]()
    checked = pipeline.check(str(path), texts, findings)
    assert (checked is not None) == (not findings.has_errors)
    text = texts.get(str(path), data.decode("utf-8-sig", "replace"))
    for item in findings:
        assert item.span.path == str(path)
        cut(text, item.span)
    if checked is not None:
        pipeline.resolve(checked)


@SETTINGS
@given(data=st.binary(max_size=80) | st.binary(max_size=20).map(lambda tail: b"\xef\xbb\xbfversion: 1\n" + tail))
def test_any_bytes_are_checked_without_raising(plan_path: Path, data: bytes) -> None:
    """The whole front end takes any bytes and answers with findings within the file."""
    check_within(plan_path, data)


INSERTED = st.sampled_from(
    (
        *"\n \t:-{}[],'\"#&*!|>0127.aé日😀\r\x00\x7f\x1b\u2028²",
        *(
            "null",
            "true",
            "off",
            "[]",
            "{}",
            "\n  ",
            "<<: *x",
            "&x ",
            "*x",
            "!!str ",
            "1e999",
            "-1",
            "1.5",
            "class",
            "cpu",
        ),
        *("9" * 5000, "tensor_parallel: {degree: 3, plan: {'a.*': colwise}}", "\n    extends: cpu", "plan: {x: 1}"),
    )
)


@st.composite
def mutations(draw: st.DrawFn) -> str:
    """A shipped plan with a few small mutations of characters or lines."""
    text = PLANS[draw(st.sampled_from(sorted(PLANS)))]
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(text)))
        lines = text.split("\n")
        row, other = draw(st.integers(0, len(lines) - 1)), draw(st.integers(0, len(lines) - 1))
        match draw(st.sampled_from(["delete", "insert", "replace", "drop", "repeat", "swap", "indent", "word"])):
            case "delete":
                text = text[:at] + text[at + draw(st.integers(1, 12)) :]
            case "insert":
                text = text[:at] + draw(INSERTED) + text[at:]
            case "replace":
                text = text[:at] + draw(INSERTED) + text[at + draw(st.integers(1, 4)) :]
            case "drop":
                text = "\n".join(lines[:row] + lines[row + 1 :])
            case "repeat":
                text = "\n".join([*lines[: other + 1], lines[row], *lines[other + 1 :]])
            case "swap":
                lines[row], lines[other] = lines[other], lines[row]
                text = "\n".join(lines)
            case "indent":
                lines[row] = draw(st.sampled_from(["", "  ", "\t", "    "])) + lines[row].lstrip()
                text = "\n".join(lines)
            case "word":
                words = list(re.finditer(r"[^\s:,{}\[\]]+", text))
                for word in words and [words[draw(st.integers(0, len(words) - 1))]]:
                    text = text[: word.start()] + draw(INSERTED) + text[word.end() :]
    return text


@settings(max_examples=200, deadline=None, derandomize=True)
@given(text=mutations())
def test_a_mutated_plan_is_checked_without_raising(plan_path: Path, text: str) -> None:
    """Whatever is changed in a shipped plan, each finding lies within the file, and what passes resolves."""
    check_within(plan_path, text.encode())
