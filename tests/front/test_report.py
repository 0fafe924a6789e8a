"""Findings as text and json: exact excerpts, carets under the right characters, nothing that drives a terminal."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import subprocess
import sys
import time
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from planc import cli, pipeline
from planc.commands.lint import FORMATS
from planc.diagnostics import Diagnostic, Fault, Findings, Related, Severity, Span
from planc.report import text

Planc = Callable[..., "subprocess.CompletedProcess[str]"]
Lint = Callable[..., tuple[int, str]]
WritePlan = Callable[..., Path]

PLAN = """\
# A plan for a test.
version: 1
model:
  pipeline: Flux2KleinPipeline
  checkpoint: black-forest-labs/FLUX.2-klein-4B
targets:
  tp:
    device: cuda
    mode: eager
    launch:
      timeout: 60
    tensor_parallel:
      plan: class
      degree: 5
"""
CLEAN = PLAN.replace("degree: 5", "degree: 4")
NOTED = CLEAN.replace("black-forest-labs/FLUX.2-klein-4B", "my-org/mine")
WARNED = """\
version: 1
model: {checkpoint: black-forest-labs/FLUX.2-klein-4B}
shapes: [{height: 64, width: 64, text_tokens: 8}]
targets:
  t: {device: neuron, mode: compiled}
"""

FAULT = Fault("P999", "odd-thing", Severity.ERROR, "")


@pytest.fixture
def lint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Lint:
    """Run `planc lint` in this process, in the folder of the plans: exit code and what it printed, on stdout only."""

    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[int, str]:
        code = cli.run(["lint", *arguments])
        shown = capsys.readouterr()
        assert shown.err == ""
        return code, shown.out

    return run


def rendered(row: str, start: int, end: int, *, line: int = 1, label: str = "here", colour: bool = False) -> list[str]:
    """The lines of a finding at columns `start` to `end` of a line."""
    item = FAULT.at(Span("p.yaml", line, start, line, end), "message", label=label)
    return text.render([item], {"p.yaml": "\n" * (line - 1) + row}, colour=colour).split("\n")


def cells(shown: str) -> int:
    """Columns of a terminal that printable text takes."""
    width = 0
    for char in shown:
        if unicodedata.category(char) not in ("Mn", "Me"):
            width += 2 if unicodedata.east_asian_width(char) in "WF" else 1
    return width


def pointed_at(lines: list[str]) -> tuple[int, int]:
    """Columns of the terminal, from the margin, at which the carets start and end."""
    caret = next(line for line in lines if re.fullmatch(r" *\| +\^+( .*)?", line))
    start = caret.index("^")
    return start, start + caret.count("^")


# Text


def test_a_finding_reads_as_the_design_shows(write_plan: WritePlan, monkeypatch: pytest.MonkeyPatch) -> None:
    """Message, place, excerpt with caret and label, note and help stand exactly as in the design."""
    monkeypatch.chdir(write_plan(PLAN, "flux2.yaml").parent)
    findings, texts = Findings(), dict[str, str]()
    pipeline.check("flux2.yaml", texts, findings)
    assert text.render(findings, texts, colour=False) == (
        "error[P301] indivisible-heads: 24 attention heads cannot be split over 5 ranks\n"
        "  --> flux2.yaml:14:15\n"
        "   |\n"
        "14 |       degree: 5\n"
        "   |               ^ degree of the tensor-parallel axis\n"
        "   = note: Flux2Transformer2DModel of black-forest-labs/FLUX.2-klein-4B has num_attention_heads = 24\n"
        "   = help: use a divisor of 24: 2, 3, 4, 6, 8, 12, 24"
    )


def test_a_finding_without_extras_ends_at_the_caret() -> None:
    """Without label, notes and hint nothing follows the carets."""
    assert rendered("a: bcd", 4, 7, label="") == [
        "error[P999] odd-thing: message",
        " --> p.yaml:1:4",
        "  |",
        "1 | a: bcd",
        "  |    ^^^",
    ]


@pytest.mark.parametrize("line", [1, 10, 999, 1000])
def test_the_margin_is_as_wide_as_the_line_number(line: int) -> None:
    """The bars stand under each other whatever the number of the line."""
    lines = rendered("a: bcd", 4, 7, line=line)
    bars = [row.index("|") for row in lines[2:]]
    assert bars == [len(str(line)) + 1] * 3
    assert lines[1].index("-->") == len(str(line))


def test_several_findings_are_parted_by_a_blank_line(write_plan: WritePlan) -> None:
    """Findings come in order of place, one blank line between them."""
    path = str(write_plan("a: off\nb: on\n"))
    findings, texts = Findings(), dict[str, str]()
    pipeline.check(path, texts, findings)
    parts = text.render(findings, texts, colour=False).split("\n\n")
    assert [part.split("\n")[0][:27] for part in parts] == ["error[P011] ambiguous-scala"] * 2
    assert text.summary(findings) == "2 errors"


def test_thousands_of_findings_are_rendered_in_a_moment() -> None:
    """The time to render grows with the findings, not with their square: a large file that is no plan stays usable."""
    row, count = "some_key: some value\n", 2000
    items = [FAULT.at(Span("p.yaml", line, 1, line, 9), "message") for line in range(1, count + 1)]
    before = time.process_time()
    assert text.render(items, {"p.yaml": row * count}, colour=False).count("^^^^^^^^\n") == count - 1
    assert time.process_time() - before < 1.5


def test_a_finding_without_text_has_no_excerpt() -> None:
    """A file that could not be read, or a line that is not there, shows the place alone."""
    item = FAULT.at(Span("p.yaml", 7, 1, 7, 1), "message", hint="help")
    expected = ["error[P999] odd-thing: message", "  --> p.yaml:7:1", "   = help: help"]
    assert text.render([item], {}, colour=False).split("\n") == expected
    assert text.render([item], {"p.yaml": "one line"}, colour=False).split("\n") == expected


def test_text_that_does_not_parse_is_shown(write_plan: WritePlan) -> None:
    """A syntax error at the end of a file without a last line end still has its excerpt."""
    path = str(write_plan("version: 1\nmodel: {a: b"))
    findings, texts = Findings(), dict[str, str]()
    pipeline.check(path, texts, findings)
    lines = text.render(findings, texts, colour=False).split("\n")
    assert lines[0].startswith("error[P007] yaml-syntax: ")
    assert lines[3] == "2 | model: {a: b"
    assert pointed_at(lines) == (len("2 | model: {a: b"), len("2 | model: {a: b") + 1)


def test_other_places_are_named() -> None:
    """A related place is shown with its span."""
    item = FAULT.at(Span("p", 1, 1, 1, 2), "m", related=[Related(Span("q.yaml", 3, 4, 3, 5), "first here")])
    assert "  = see q.yaml:3:4: first here" in text.render([item], {"p": "x"}, colour=False).split("\n")


@pytest.mark.parametrize(
    "before",
    [
        "",
        "abc ",
        "日本語 ",
        "한국어 ",
        "ｆｕｌｌ ",
        "😀 ",
        "e\u0301 ",
        "กิน ",
        "ที่ ",
        "हिन्दी ",
        "עִבְרִית ",
        "a\tb\t",
        "é ",
        "\u200d ",
        "\u202e ",
        "\ufeff ",
        "🇩🇪 ",
    ],
)
@pytest.mark.parametrize("word", ["x", "xyz", "日本", "e\u0301e\u0301", "นี้"])
def test_carets_stand_under_their_characters(before: str, word: str) -> None:
    """Wide, combining, invisible and tab characters before or inside the span do not move the carets."""
    row = f'"{before}": {word}, z: 1'
    start = row.index(f": {word}, z") + 3
    lines = rendered(row, start, start + len(word))
    shown = lines[3]
    expected = shown.rindex(f": {word}, z") + 2
    first, last = pointed_at(lines)
    assert (first, last) == (cells(shown[:expected]), cells(shown[: expected + len(word)]))


@pytest.mark.parametrize(
    ("at", "length"), [(0, 1), (5, 3), (59, 2), (60, 1), (61, 1), (119, 1), (120, 5), (121, 3), (290, 10)]
)
@pytest.mark.parametrize("filler", ["x", "日", "กิ"])
def test_a_long_line_is_cut_around_its_carets(at: int, length: int, filler: str) -> None:
    """Of a very long line the part round the span is shown, with dots where it is cut, and the carets fit."""
    row = (filler * 300)[:300]
    row = row[:at] + "!" * length + row[at + length :]
    lines = rendered(row, at + 1, at + length + 1)
    shown = lines[3]
    assert shown.count("!") == length
    assert len(shown) <= 130
    assert pointed_at(lines) == (cells(shown[: shown.index("!")]), cells(shown[: shown.rindex("!") + 1]))


def test_a_span_longer_than_the_window_is_underlined_to_the_cut() -> None:
    """A span that runs past what is shown is underlined as far as it is shown."""
    lines = rendered("x" * 400, 1, 401)
    assert lines[3].endswith("…")
    assert pointed_at(lines) == (4, len(lines[3]) - 1)


@pytest.mark.parametrize(("row", "start", "width"), [("a: |", 4, 1), ('a: "first', 4, 6)])
def test_a_span_over_several_lines_is_underlined_to_the_end_of_its_first(row: str, start: int, width: int) -> None:
    """Of a span over several lines the first is shown and underlined to its end."""
    item = FAULT.at(Span("p.yaml", 1, start, 3, 2), "message")
    lines = text.render([item], {"p.yaml": f"{row}\n  b\nc"}, colour=False).split("\n")
    assert pointed_at(lines) == (4 + start - 1, 4 + start - 1 + width)


def test_a_span_without_width_has_one_caret() -> None:
    """An empty value or the start of a block is marked by a single caret, past the line's end too."""
    assert pointed_at(rendered("a:", 3, 3)) == (6, 7)
    assert pointed_at(rendered("", 1, 1)) == (4, 5)


def test_lines_that_end_in_crlf_are_shown_without_the_end() -> None:
    """A carriage return before a line feed is neither shown nor counted."""
    item = FAULT.at(Span("p.yaml", 2, 1, 2, 2), "message")
    shown = text.render([item], {"p.yaml": "a\r\nb\r\nc\r\n"}, colour=False)
    assert "2 | b\n" in shown
    assert "\\r" not in shown


# Control characters

EVIL = "\x1b[31m\x1b]0;x\x07\x9b31m\u202e\u2066\x7f\x00\r\b"


def raw(shown: str) -> list[str]:
    """The characters of an output that could drive a terminal."""
    return [char for char in shown if char != "\n" and not char.isprintable()]


@pytest.mark.parametrize("part", ["message", "label", "note", "hint", "related", "path", "row"])
def test_no_part_of_a_finding_drives_the_terminal(part: str) -> None:
    """Escapes in any part of a finding, its path and its excerpt included, are shown instead of sent."""
    said = dict.fromkeys(("message", "label", "note", "hint", "related", "path", "row"), "plain") | {part: EVIL}
    span = Span(said["path"], 1, 1, 1, 2)
    item = FAULT.at(
        span,
        said["message"],
        label=said["label"],
        notes=[said["note"]],
        hint=said["hint"],
        related=[Related(span, said["related"])],
    )
    assert raw(text.render([item], {said["path"]: said["row"]}, colour=False)) == []


EVIL_PLANS = [
    PLAN.replace("timeout: 60", '"\\e[31mx\\x9b\\u202e": 60'),
    PLAN.replace("class", '"\\e]0;x\\a"'),
    PLAN.replace("cuda", '"\\x9b31m"'),
    PLAN.replace("tp:", '"\\e[31m":'),
    PLAN.replace("timeout: 60", 'env: {"\\e[31m": x}'),
    PLAN.replace("Flux2KleinPipeline", '"\\e[31m\\x9b"'),
    PLAN.replace("black-forest-labs/FLUX.2-klein-4B", '"\\e[31m\\x9b\\0"'),
    PLAN.replace("plan: class", 'plan: {"\\e[31m\\x9b": colwise}'),
    PLAN + '    extends: "\\e[31m\\x9b"\n',
    "a: &\x1b[31m b\n",
    "a: \x1b[31moff\n",
    "a: \u202e off\u2066\n",
    "\x1b[31m",
    "a: *\u202ex\n",
    "a: !\u202ex y\n",
]


@pytest.mark.parametrize("plan", EVIL_PLANS)
@pytest.mark.parametrize("form", FORMATS)
def test_no_plan_drives_the_terminal(lint: Lint, write_plan: WritePlan, plan: str, form: str) -> None:
    """Whatever control characters a plan holds, raw or escaped, `planc lint` prints none of them raw."""
    write_plan(plan)
    _, shown = lint("plan.yaml", "--format", form)
    assert re.search(r"P\d{3}", shown)
    assert raw(shown) == []


@pytest.mark.parametrize("form", FORMATS)
def test_no_file_name_drives_the_terminal(lint: Lint, write_plan: WritePlan, form: str) -> None:
    """Control characters in a file's name are shown, not sent."""
    write_plan("a: off\n", "x\x1b[31m.yaml")
    code, shown = lint("x\x1b[31m.yaml", "no\x1b[31m.yaml", "--format", form)
    assert (code, raw(shown)) == (2, [])


@pytest.mark.skipif(sys.platform == "darwin", reason="its file systems take UTF-8 names only")
@pytest.mark.parametrize("form", FORMATS)
def test_a_file_name_that_is_not_utf8_is_no_bug(planc: Planc, tmp_path: Path, form: str) -> None:
    """A file whose name is not UTF-8 is linted like any other, in a terminal that takes only UTF-8."""
    name = os.fsdecode(b"caf\xe9.yaml")
    (tmp_path / name).write_text("a: off\n", encoding="utf-8")
    done = planc("lint", name, "--format", form, env={"PYTHONIOENCODING": "utf-8:strict"})
    assert done.returncode == 1, done.stderr
    assert "P011" in done.stdout


@pytest.mark.parametrize("form", FORMATS)
def test_a_terminal_without_unicode_is_no_bug(planc: Planc, write_plan: WritePlan, form: str) -> None:
    """Where the terminal takes ASCII only, what it cannot show is escaped; planc does not call that a bug."""
    write_plan("日本: {x: off}\ntargets: {a: {extends: a}}\n")
    done = planc("lint", "plan.yaml", "--format", form, env={"PYTHONIOENCODING": "ascii"})
    assert done.returncode == 1, done.stderr
    assert "P011" in done.stdout


# Colour


def test_text_without_colour_has_no_escapes(write_plan: WritePlan) -> None:
    """Without colour the text is the same, less the escapes."""
    findings, texts = Findings(), dict[str, str]()
    pipeline.check(str(write_plan(PLAN)), texts, findings)
    plain, coloured = (text.render(findings, texts, colour=colour) for colour in (False, True))
    assert "\x1b" not in plain
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == plain
    assert "\x1b[1;31merror[P301]\x1b[0m" in coloured
    assert coloured.count("\x1b[0m") * 2 == coloured.count("\x1b[")


def test_each_severity_has_its_colour() -> None:
    """Errors, warnings and notes can be told apart at a glance."""
    codes = set()
    for severity in Severity:
        item = Fault("P999", "n", severity, "").at(Span("p", 1, 1, 1, 1), "m")
        found = re.match(
            rf"\x1b\[([0-9;]+)m{severity.value}\[P999\]\x1b\[0m n: m\n", text.render([item], {}, colour=True)
        )
        assert found is not None
        codes.add(found[1])
    assert len(codes) == len(Severity)


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("variables", "stream", "expected"),
    [
        ({}, Terminal(), True),
        ({"TERM": "xterm"}, Terminal(), True),
        ({"TERM": "dumb"}, Terminal(), False),
        ({"NO_COLOR": "1"}, Terminal(), False),
        ({}, io.StringIO(), False),
    ],
)
def test_colour_is_for_terminals_whose_user_wants_it(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], stream: io.StringIO, expected: bool
) -> None:
    """Colour needs a terminal, no NO_COLOR and a TERM that is not dumb."""
    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert text.wants_colour(stream) is expected


def on_a_terminal(folder: Path, variables: dict[str, str]) -> str:
    """What `planc lint plan.yaml` prints on a pseudo-terminal."""
    parent, child = pty.openpty()
    environment = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "TERM")} | variables
    try:
        done = subprocess.run(
            [sys.executable, "-m", "planc", "lint", "plan.yaml"],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=child,
            stderr=child,
            timeout=60,
            check=False,
        )
        assert done.returncode == 1
        return os.read(parent, 1 << 16).decode()
    finally:
        os.close(child)
        os.close(parent)


@pytest.mark.parametrize(
    ("variables", "is_coloured"),
    [({"TERM": "xterm"}, True), ({"TERM": "xterm", "NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)],
)
def test_lint_colours_a_terminal(write_plan: WritePlan, variables: dict[str, str], is_coloured: bool) -> None:
    """On a terminal `planc lint` prints in colour, unless NO_COLOR or a dumb TERM says otherwise."""
    shown = on_a_terminal(write_plan(PLAN).parent, variables)
    assert "P301" in shown
    assert ("\x1b[" in shown) is is_coloured


# The command


@pytest.mark.parametrize(
    ("plan", "code", "last"),
    [
        (CLEAN, 0, "1 plan checked, nothing found"),
        (PLAN, 1, "1 error"),
        (NOTED, 0, "1 note"),
        (WARNED, 1, "1 warning"),
        (PLAN.replace("timeout: 60", "env: {A-B: x}"), 1, "2 errors"),
        (NOTED.replace("timeout: 60", "env: {A-B: x}"), 1, "1 error, 1 note"),
        ("", 1, "1 error"),
        ("a: [", 1, "1 error"),
    ],
)
def test_lint_exits_by_what_it_found(lint: Lint, write_plan: WritePlan, plan: str, code: int, last: str) -> None:
    """0 where nothing or only notes were found, 1 at errors and warnings; the last line counts them."""
    write_plan(plan)
    found, shown = lint("plan.yaml")
    assert (found, shown.splitlines()[-1]) == (code, last)


@pytest.mark.parametrize("name", ["missing.yaml", "empty", "empty/no.yaml", "a-file/no.yaml", "x" * 300])
def test_lint_exits_2_where_a_file_cannot_be_read(lint: Lint, write_plan: WritePlan, tmp_path: Path, name: str) -> None:
    """A missing file or an empty folder is exit code 2, though other plans were checked."""
    write_plan(CLEAN)
    write_plan(CLEAN, "a-file")
    (tmp_path / "empty").mkdir()
    code, shown = lint("plan.yaml", name)
    assert code == 2
    assert shown.count("P001") == 1


@pytest.mark.parametrize("name", ["closed", "closed/plan.yaml"])
def test_a_folder_that_may_not_be_entered_is_unreadable(
    lint: Lint, write_plan: WritePlan, tmp_path: Path, name: str
) -> None:
    """A folder without permission, and a plan in it, are P001 and exit code 2."""
    (tmp_path / "closed").mkdir()
    write_plan(CLEAN, "closed/plan.yaml")
    assert lint(name)[0] == 0
    (tmp_path / "closed").chmod(0)
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(65534)
    try:
        code, shown = lint(name)
    finally:
        if is_root:
            os.seteuid(0)
        (tmp_path / "closed").chmod(0o700)
    assert (code, shown.count("P001")) == (2, 1)
    assert "Permission denied" in shown


def test_the_process_exits_by_what_it_found(planc: Planc, write_plan: WritePlan) -> None:
    """The process's own exit code is that of the command."""
    write_plan(PLAN)
    assert [planc("lint", name).returncode for name in ("plan.yaml", "missing.yaml")] == [1, 2]


@pytest.mark.parametrize("arguments", [[], ["--no-such-option", "x"], ["--format", "xml", "x"]])
def test_lint_without_a_plan_is_wrong_usage(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    """No argument and an unknown option are exit code 2, with the usage."""
    with pytest.raises(SystemExit) as stopped:
        cli.run(["lint", *arguments])
    assert stopped.value.code == 2
    assert "usage: planc" in capsys.readouterr().err


def test_a_folder_stands_for_its_plans(lint: Lint, write_plan: WritePlan) -> None:
    """A folder means the .yaml and .yml files in it, sorted, each once; other files are left alone."""
    for name in ("b.yaml", "a.yml", "c.txt"):
        write_plan("x: off\n", name)
    code, shown = lint(".", "b.yaml", "./b.yaml")
    places = [line.strip() for line in shown.splitlines() if "-->" in line]
    assert (code, places) == (1, ["--> a.yml:1:4", "--> b.yaml:1:4"])


def test_lint_needs_no_torch(root: Path) -> None:
    """Linting the shipped plans imports neither torch nor diffusers."""
    script = (
        "import sys\nfrom planc import cli\ncode = cli.run(['lint', 'plans'])\n"
        "assert not {'torch', 'diffusers', 'transformers'} & set(sys.modules)\nsys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=root, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


# Json


def test_json_holds_code_and_place(lint: Lint, write_plan: WritePlan) -> None:
    """Each finding is an object with code, name, severity, message and a span that counts from 1."""
    write_plan(PLAN)
    code, shown = lint("plan.yaml", "--format", "json")
    assert code == 1
    assert json.loads(shown) == [
        {
            "code": "P301",
            "name": "indivisible-heads",
            "severity": "error",
            "message": "24 attention heads cannot be split over 5 ranks",
            "span": {"path": "plan.yaml", "line": 14, "column": 15, "end_line": 14, "end_column": 16},
            "label": "degree of the tensor-parallel axis",
            "notes": ["Flux2Transformer2DModel of black-forest-labs/FLUX.2-klein-4B has num_attention_heads = 24"],
            "hint": "use a divisor of 24: 2, 3, 4, 6, 8, 12, 24",
            "fix": None,
            "related": [],
        }
    ]


def test_json_of_nothing_is_an_empty_list(lint: Lint, write_plan: WritePlan) -> None:
    """A clean plan gives [] and exit code 0, a missing one a P001 and exit code 2."""
    write_plan(CLEAN)
    code, shown = lint("plan.yaml", "--format", "json")
    assert (code, json.loads(shown)) == (0, [])
    code, shown = lint("missing.yaml", "--format", "json")
    assert (code, [item["code"] for item in json.loads(shown)]) == (2, ["P001"])


def test_json_keeps_every_character(lint: Lint, write_plan: WritePlan) -> None:
    """Names come back from json as they were written, control characters too."""
    write_plan('"日本\\u2028\\x9b\\"😀": 1\n')
    found: list[dict[str, Any]] = json.loads(lint("plan.yaml", "--format", "json")[1])
    assert any(item["message"] == 'a plan has no key `日本\u2028\x9b"😀`' for item in found)


def test_every_diagnostic_can_be_json() -> None:
    """Notes, warnings and related places are kept."""
    from planc.report import json as report

    item: Diagnostic = Fault("P999", "n", Severity.NOTE, "").at(
        Span("p", 1, 1, 1, 1), "m", related=[Related(Span("q", 2, 3, 4, 5), "r")]
    )
    (found,) = json.loads(report.render([item]))
    assert (found["severity"], found["related"][0]["span"]["end_line"]) == ("note", 4)
