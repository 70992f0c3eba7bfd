"""Reports of test runners: what real ones wrote, and what hostile tests could write."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ollm_tui.core.base.results import JsonObject
from ollm_tui.core.test_runs.printed import TestProgress, parse_cargo, parse_tap, parse_unittest
from ollm_tui.core.test_runs.report import (
    MAX_FAILURES,
    MAX_REPORT_BYTES,
    Locator,
    ReportError,
    TestReport,
    parse_go,
    parse_jest,
    parse_junit,
)


@pytest.fixture
def locator(tmp_path: Path) -> Locator:
    for name in ("sum.test.ts", "calc/sum_test.go", "calc/sum.go", "src/lib.rs", "test_a.py", "a_test.js"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("")
    return Locator(tmp_path)


def counts(report: TestReport) -> tuple[int, int, int, int]:
    return report.passed, report.failed, report.errors, report.skipped


def first(report: TestReport) -> tuple[str, int | None, str, str]:
    failure = report.failures[0]
    return failure.path, failure.line, failure.name, failure.message


SUREFIRE = b"""<?xml version="1.0" encoding="UTF-8"?>
<testsuite name="com.acme.SumTest" time="0.06" tests="3" errors="1" skipped="1" failures="1">
  <properties><property name="java.version" value="17"/></properties>
  <testcase name="adds" classname="com.acme.SumTest" time="0.02">
    <failure message="expected: &lt;3&gt; but was: &lt;2&gt;" type="org.opentest4j.AssertionFailedError"><![CDATA[
org.opentest4j.AssertionFailedError: expected: <3> but was: <2>
\tat com.acme.SumTest.adds(SumTest.java:12)]]></failure>
  </testcase>
  <testcase name="breaks" classname="com.acme.SumTest"><error type="java.lang.IllegalStateException">boom</error></testcase>
  <testcase name="later" classname="com.acme.SumTest"><skipped/></testcase>
</testsuite>"""


def test_a_report_of_maven_names_class_method_and_message(locator: Locator) -> None:
    report = parse_junit(SUREFIRE, locator)
    assert counts(report) == (0, 1, 1, 1)
    assert first(report)[2:] == ("com.acme.SumTest.adds", "expected: <3> but was: <2>")
    assert report.failures[1].message == "boom"


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (
            b'<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><testsuite><testcase name="&b;"/></testsuite>',
            "document",
        ),
        (b'<!DOCTYPE x SYSTEM "file:///etc/passwd"><testsuite/>', "document"),
        (b"<testsuite><testcase>", "no XML"),
        (b"", "no XML"),
        (b"\x00\xff", "no XML"),
    ],
)
def test_a_report_that_could_do_harm_is_refused(locator: Locator, content: bytes, why: str) -> None:
    with pytest.raises(ReportError, match=why):
        parse_junit(content, locator)


def test_a_report_is_bounded_in_size_failures_and_texts(locator: Locator) -> None:
    with pytest.raises(ReportError, match="50,000,000"):
        parse_junit(b" " * (MAX_REPORT_BYTES + 1), locator)
    case = b'<testcase name="x"><failure message="m">' + b"t" * 100 + b"</failure></testcase>"
    report = parse_junit(b"<testsuite>" + case * (MAX_FAILURES + 5) + b"</testsuite>", locator)
    assert report.failed == MAX_FAILURES + 5 and len(report.failures) == MAX_FAILURES
    long = b'<testcase name="x"><failure>' + b"t" * 1_000_000 + b"</failure></testcase>"
    assert len(parse_junit(b"<testsuite>" + long + b"</testsuite>", locator).failures[0].text) == 20_000


def test_jest_and_vitest(locator: Locator, tmp_path: Path) -> None:
    file = str(tmp_path / "sum.test.ts")
    stack = f"AssertionError: expected 2 to be 3\n    at {file}:7:15\n    at node_modules/vitest/x.js:1:1"
    cases = [
        {"status": "passed", "fullName": "sum one", "title": "one"},
        {"status": "failed", "fullName": "sum two", "title": "two", "failureMessages": [stack]},
        {"status": "pending", "title": "three"},
    ]
    broken: JsonObject = {
        "name": str(tmp_path / "a_test.js"),
        "status": "failed",
        "message": "SyntaxError: x",
        "assertionResults": [],
    }
    whole: dict[str, object] = {"testResults": [{"name": file, "status": "failed", "assertionResults": cases}, broken]}
    report = parse_jest(json.dumps(whole).encode(), locator)
    assert counts(report) == (1, 1, 1, 1) and not report.crashed
    assert first(report) == ("sum.test.ts", 7, "sum two", "AssertionError: expected 2 to be 3")
    assert parse_jest(json.dumps({"testResults": [broken]}).encode(), locator).crashed
    with pytest.raises(ReportError):
        parse_jest(b"[" * 100_000, locator)


GO = """\
{"Action":"start","Package":"acme.org/m/calc"}
{"Action":"run","Package":"acme.org/m/calc","Test":"TestSum"}
{"Action":"output","Package":"acme.org/m/calc","Test":"TestSum","Output":"=== RUN   TestSum\\n"}
{"Action":"output","Package":"acme.org/m/calc","Test":"TestSum","Output":"    sum_test.go:8: got 2, want 3\\n"}
{"Action":"fail","Package":"acme.org/m/calc","Test":"TestSum","Elapsed":0}
{"Action":"pass","Package":"acme.org/m/calc","Test":"TestOther","Elapsed":0}
{"Action":"skip","Package":"acme.org/m/calc","Test":"TestLater","Elapsed":0}
{"Action":"fail","Package":"acme.org/m/calc","Elapsed":0.002}
"""


def test_go(locator: Locator) -> None:
    report = parse_go(GO, locator)
    assert counts(report) == (1, 1, 0, 1)
    assert first(report) == ("calc/sum_test.go", 8, "acme.org/m/calc.TestSum", "sum_test.go:8: got 2, want 3")
    built = (
        '{"ImportPath":"acme.org/m/calc [acme.org/m/calc.test]","Action":"build-output","Output":"calc/sum.go:3:1: bad\\n"}\n'
        '{"Action":"fail","Package":"acme.org/m/calc","Elapsed":0}\n'
    )
    assert parse_go(built, locator).crashed and first(parse_go(built, locator))[:2] == ("calc/sum.go", 3)
    with pytest.raises(ReportError):
        parse_go("go: cannot find main module\n", locator)


def test_cargo_that_does_not_build(locator: Locator) -> None:
    said = "error[E0425]: cannot find value `x` in this scope\n --> src/lib.rs:2:5\n  |\nerror: could not compile `m`\n"
    report = parse_cargo(said, locator)
    assert report.crashed and first(report) == ("src/lib.rs", 2, "build", "cannot find value `x` in this scope")


def test_unittest_that_cannot_load_a_module(locator: Locator) -> None:
    line, dash = "=" * 70, "-" * 70
    said = (
        f"test_a (unittest.loader._FailedTest.test_a) ... ERROR\n\n{line}\n"
        f"ERROR: test_a (unittest.loader._FailedTest.test_a)\n{dash}\nImportError: Failed to import test module: test_a\n"
        'Traceback (most recent call last):\n  File "test_a.py", line 1, in <module>\nModuleNotFoundError: No module\n'
        f"\n\n{dash}\nRan 1 test in 0.000s\n\nFAILED (errors=1)\n"
    )
    report = parse_unittest(said, locator)
    assert report.crashed and counts(report) == (0, 0, 1, 0) and first(report)[:2] == ("test_a.py", 1)


def test_tap_counts_its_top_level_alone(locator: Locator) -> None:
    said = (
        "TAP version 14\n# Subtest: a\n    ok 1 - inner\nok 1 - a\nnot ok 2 - b\n  ---\n  message: 'oh'\n  at: a_test.js:3:1\n"
        "  ...\nok 3 - c # SKIP no net\nnot ok 4 - d # TODO later\n1..4\n"
    )
    report = parse_tap(said, locator)
    assert counts(report) == (1, 1, 0, 2) and first(report) == ("a_test.js", 3, "b", "message: 'oh'")
    assert parse_tap("ok 1 - a\nBail out! no disk\n", locator).crashed
    with pytest.raises(ReportError):
        parse_tap("all is well\n", locator)


PYTEST = (
    "\x1b[1mcollecting ... \x1b[0m\x1b[1m\rcollected 20 items\x1b[0m\r\n"
    "tests/test_a.py \x1b[32m.\x1b[0m\x1b[32m   [ 50%]\x1b[0m\r\ntests/test_b.py ..........   [100%]\r\n"
)
PRINTED = [
    (PYTEST, ["10 of 20", "20 of 20"]),
    ("collected 9 items / 5 deselected / 4 selected\na.py::b PASSED [ 25%]\n", ["1 of 4"]),
    ("4 workers [40 items]\n...... [ 30%]\n", ["12 of 40"]),
    (".......... [ 30%]\n", []),
    ("running 2 tests\ntest a ... ok\ntest b ... FAILED\n\nrunning 1 test\n", ["1 of 2", "2 of 2", "2 of 3"]),
    ("TAP version 13\n1..3\nok 1 - a\n    ok 1 - inner\nnot ok 2\n", ["1 of 3", "2 of 3"]),
    ("      Start 1: a\n 1/12 Test  #1: a ....   Passed    0.01 sec\n", ["1 of 12"]),
    ("ok 1 - the plan comes last\n1..1\n", ["1 of 1"]),
    ("50 of 10 things\n[ 99%] Building\n" + "x" * 10_000, []),
]


@pytest.mark.parametrize(("printed", "told"), PRINTED)
def test_how_far_the_tests_are_is_told_where_their_number_is(printed: str, told: list[str]) -> None:
    for size in (1, 7):
        progress = TestProgress()
        lines = [line for at in range(0, len(printed), size) if (line := progress.feed(printed[at : at + size]))]
        assert lines == [f"{one} tests\n" for one in told]
