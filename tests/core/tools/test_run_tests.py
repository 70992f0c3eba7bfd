"""`run_tests`: the runner found, judged as its command, its report read (003; contract section 1)."""

from __future__ import annotations

import asyncio
import os
import pwd
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from ollm_tui.core.base.errors import FileNotFound, InvalidArguments, ToolFailure
from ollm_tui.core.base.results import ToolResult
from ollm_tui.core.bus.confirmation import CommandPreview, Preview
from ollm_tui.core.test_runs.runners import Selection, find_command
from ollm_tui.core.tools.run_tests import RUN_TESTS, RunState, RunTestsData
from tests.core.tools.file_calls import Room, run


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Room:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return Room(tmp_path)


def run_project(room: Room, said: list[str] | None = None, **arguments: object) -> ToolResult:
    async def whole() -> ToolResult:
        try:
            return await run(room.invocation(RUN_TESTS, **arguments), None, None if said is None else said.append)
        finally:
            await room.context.defaults.aclose()

    return asyncio.run(whole())


def data(result: ToolResult) -> RunTestsData:
    assert isinstance(result.data, RunTestsData), result.llm_content
    return result.data


def counts(result: ToolResult) -> tuple[int, int, int, int]:
    found = data(result)
    return found.passed, found.failed, found.errors, found.skipped


def with_own_python(room: Room) -> None:
    room.write(".venv/bin/x")
    (room.folder / ".venv/bin/python").symlink_to(sys.executable)


PYTEST = """
import pytest
class TestYak:
    def test_ok(self): pass
    def test_bad(self):
        assert 1 == 2, "because"
@pytest.mark.skip
def test_later(): pass
"""


def test_pytest_tells_counts_and_where_it_failed_and_runs_what_failed_again(room: Room) -> None:
    room.write("tests/test_yak.py", PYTEST)
    with_own_python(room)
    said: list[str] = []
    result = run_project(room, said)
    assert counts(result) == (1, 1, 0, 1), result.llm_content
    assert "3 of 3 tests\n" in "".join(said) and "3 of 3 tests" not in result.llm_content
    failure = data(result).failures[0]
    assert (failure.path, failure.line, failure.name) == ("tests/test_yak.py", 6, "TestYak::test_bad")
    assert data(result).command == ".venv/bin/python -m pytest" and data(result).state is RunState.FAILED
    assert "tests/test_yak.py:6 TestYak::test_bad: AssertionError: because" in result.llm_content
    assert result.error is not None and result.error.message == "1 of 2 tests failed"
    report = next(each.path for each in result.artifacts if each.kind == "report")
    assert f"Full report: {report}" in result.llm_content
    again = run_project(room, lastFailed=True)
    assert counts(again) == (0, 1, 0, 0)


def test_no_tests_and_a_crash_in_collection_are_states_of_their_own(room: Room) -> None:
    room.write("pytest.ini", "[pytest]\n")
    with_own_python(room)
    nothing = run_project(room)
    assert data(nothing).state is RunState.NO_TESTS and not nothing.ok and "found no tests" in nothing.llm_content
    room.write("test_yak.py", "import not_there_at_all\n")
    crash = run_project(room)
    assert data(crash).state is RunState.CRASHED
    assert "test_yak.py:1" in crash.llm_content and "No module named 'not_there_at_all'" in crash.llm_content


UNITTEST = """
import unittest
class Yak(unittest.TestCase):
    def test_ok(self): pass
    def test_bad(self):
        "A docstring stands in its heading."
        self.assertEqual(1, 2)
    @unittest.skip("later")
    def test_later(self): pass
"""


def test_unittest_and_a_time_out(room: Room) -> None:
    room.write("tests/test_yak.py", UNITTEST)
    result = run_project(room)
    assert counts(result) == (1, 1, 0, 1), result.llm_content
    failure = data(result).failures[0]
    assert (failure.path, failure.line, failure.name) == ("tests/test_yak.py", 7, "test_yak.Yak.test_bad")
    assert counts(run_project(room, lastFailed=True)) == (0, 1, 0, 0)
    room.write("tests/test_yak.py", "import time\ntime.sleep(600)\n")
    late = run_project(room, timeout=1)
    assert data(late).state is RunState.TIMED_OUT and late.error is not None and late.error.type == "ShellTimeoutError"


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_node(room: Room) -> None:
    room.write("package.json", '{"name": "yak"}')
    room.write(
        "a.test.js",
        "const {test, describe} = require('node:test'); const assert = require('assert');\n"
        "test('good', () => {}); test.skip('later', () => {});\n"
        "describe('group', () => { test('bad', () => {\n assert.equal(1, 2) }) });\n",
    )
    result = run_project(room)
    assert counts(result) == (1, 1, 0, 1), result.llm_content
    failure = data(result).failures[0]
    assert (failure.path, failure.line, failure.name) == ("a.test.js", 4, "group > bad")


@pytest.mark.skipif(shutil.which("cargo") is None, reason="needs cargo")
def test_cargo(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUSTUP_HOME", str(Path(pwd.getpwuid(os.getuid()).pw_dir, ".rustup")))
    monkeypatch.setenv("CARGO_HOME", str(room.outside))
    room.write("Cargo.toml", '[package]\nname = "yak"\nversion = "0.1.0"\nedition = "2021"\n')
    room.write("src/lib.rs", '#[test] fn good() {}\n#[test] fn bad() {\n assert_eq!(1, 2, "why"); }\n')
    result = run_project(room)
    assert counts(result) == (1, 1, 0, 0), result.llm_content
    failure = data(result).failures[0]
    assert (failure.path, failure.line, failure.name) == ("src/lib.rs", 3, "bad")


@pytest.mark.skipif(shutil.which("ctest") is None, reason="needs ctest")
def test_ctest(room: Room) -> None:
    room.write(
        "build/CTestTestfile.cmake", 'add_test(good "/bin/true")\nadd_test(bad "/bin/sh" "-c" "echo oh; exit 3")\n'
    )
    result = run_project(room)
    assert counts(result) == (1, 1, 0, 0), result.llm_content
    assert data(result).failures[0].name == "bad" and data(result).failures[0].message == "oh"


MVN = r"""#!/bin/sh
echo "$@" > mvn-arguments
mkdir -p target/surefire-reports core/target/surefire-reports
cat > target/surefire-reports/TEST-com.acme.SumTest.xml <<'END'
%s
END
cat > core/target/surefire-reports/TEST-com.acme.CoreTest.xml <<'END'
<testsuite name="com.acme.CoreTest" tests="1"><testcase name="works" classname="com.acme.CoreTest"/>
<testcase name="breaks" classname="com.acme.CoreTest"><error type="x"><![CDATA[java.lang.IllegalStateException: broken
	at app//com.acme.Core.start(Core.java:3)
	at com.acme.CoreTest$Inner.breaks(CoreTest.java:7)]]></error></testcase></testsuite>
END
echo '[INFO] BUILD FAILURE'
exit 1
"""
SUREFIRE = """<?xml version="1.0" encoding="UTF-8"?>
<testsuite name="com.acme.SumTest" tests="3" errors="0" skipped="1" failures="1">
  <testcase name="adds" classname="com.acme.SumTest"><failure message="expected: &lt;3&gt; but was: &lt;2&gt;"
    type="org.opentest4j.AssertionFailedError"><![CDATA[org.opentest4j.AssertionFailedError: expected: <3>
\tat com.acme.SumTest.adds(SumTest.java:12)]]></failure></testcase>
  <testcase name="holds" classname="com.acme.SumTest"/>
  <testcase name="later" classname="com.acme.SumTest"><skipped/></testcase>
</testsuite>"""
DECLARING = '<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]><testsuite><testcase name="&a;"/></testsuite>'


def with_maven(room: Room, monkeypatch: pytest.MonkeyPatch, report: str) -> None:
    """Put a program in Maven's place that writes reports as surefire does, in two modules."""
    room.write("pom.xml", "<project/>")
    for path in (
        "src/test/java/com/acme/SumTest",
        "core/src/test/java/com/acme/CoreTest",
        "core/src/main/java/com/acme/Core",
    ):
        room.write(f"{path}.java")
    program = room.outside / "mvn"
    program.write_text(MVN % report)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{room.outside}:{os.environ['PATH']}")


def test_maven_tells_what_surefire_reports_of_all_modules(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    with_maven(room, monkeypatch, SUREFIRE)
    # Of an earlier run: it counts nothing.
    stale = room.write("old/target/surefire-reports/TEST-a.xml", SUREFIRE)
    os.utime(stale, (1, 1))
    result = run_project(room)
    assert counts(result) == (2, 1, 1, 1), result.llm_content
    error, failure = sorted(data(result).failures, key=lambda each: each.name)
    assert (error.path, error.line) == ("core/src/test/java/com/acme/CoreTest.java", 7)
    assert (failure.path, failure.line) == ("src/test/java/com/acme/SumTest.java", 12)
    assert failure.name == "com.acme.SumTest.adds" and "expected: <3> but was: <2>" in failure.message
    assert room.read("mvn-arguments") == b"-B --fail-at-end test\n"
    run_project(room, lastFailed=True)
    assert b" test -Dtest=SumTest#adds,CoreTest#breaks -DfailIfNoTests=false\n" in room.read("mvn-arguments")


def test_a_report_of_maven_that_declares_a_document_type_is_not_read(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_maven(room, monkeypatch, DECLARING)
    result = run_project(room)
    assert not result.ok and "root:" not in result.llm_content and "document type" in result.llm_content


def test_the_question_shows_the_command_and_the_policy_is_asked_about_it(room: Room) -> None:
    room.write("pytest.ini", "[pytest]\n")
    room.write("tests/test_yak.py")
    call = room.invocation(RUN_TESTS, paths=["tests/test_yak.py"], names=["one", "A::b"])

    async def shown() -> Preview | None:
        return await (await call.question()).preview()

    preview = asyncio.run(shown())
    assert isinstance(preview, CommandPreview)
    assert preview.command == "python3 -m pytest tests/test_yak.py -k 'one or (A and b)'" == call.facts().command


def test_the_command_of_the_settings_comes_first(room: Room) -> None:
    room.write("pytest.ini", "[pytest]\n")
    room.context = replace(room.context, test_command="printf 'ok 1 - a\\nnot ok 2 - b\\n'; false;")
    assert counts(run_project(room)) == (1, 1, 0, 0)
    with pytest.raises(InvalidArguments, match="names"):
        run_project(room, names=["a"])


@pytest.mark.parametrize(
    ("files", "selection", "line"),
    [
        ({"package.json": '{"scripts": {"test": "vitest"}}', "yarn.lock": ""}, Selection(names=("a b",)), "yarn test"),
        (
            {"package.json": '{"scripts": {"test": "jest"}}'},
            Selection(),
            "npm test -- --json --outputFile=$OLLM_TEST_REPORT",
        ),
        (
            {"package.json": '{"devDependencies": {"vitest": "1"}}'},
            Selection(("a.test.ts",)),
            "npx --no-install vitest run",
        ),
        ({"package.json": '{"scripts": {"test": "make it"}}'}, Selection(), "npm test"),
        ({"go.mod": ""}, Selection(("calc/sum_test.go",), ("TestSum",)), "go test -json -run '^(TestSum)$' ./calc"),
        ({"go.mod": ""}, Selection(), "go test -json ./..."),
        ({"pom.xml": ""}, Selection(failed=("a.B.c",)), "mvn -B --fail-at-end test '-Dtest=B#c' -DfailIfNoTests=false"),
        ({"build.gradle.kts": ""}, Selection(("src/YakTest.kt",)), "gradle test --continue --tests '*YakTest'"),
        ({"pytest.ini": "", "Cargo.toml": ""}, Selection(("tests/yak.rs",)), "cargo test --no-fail-fast --test yak"),
        ({"pytest.ini": ""}, Selection(("--evil.py",)), "python3 -m pytest ./--evil.py"),
        ({"test_a.py": "def test_plain():\n    pass\n"}, Selection(), "python3 -m pytest"),
        ({"test_a.py": "import unittest\n\ndef test_helper():\n    pass\n"}, Selection(), "python3 -m unittest"),
    ],
)
def test_each_runner_is_found_and_called(room: Room, files: dict[str, str], selection: Selection, line: str) -> None:
    for name, content in files.items():
        room.write(name, content)
    assert find_command(room.folder, "", selection).line.startswith(line)


def test_what_cannot_be_run_is_said_before_anyone_is_asked(room: Room) -> None:
    with pytest.raises(ToolFailure, match="No test runner"):
        run_project(room)
    room.write("Cargo.toml")
    room.write("src/lib.rs")
    with pytest.raises(InvalidArguments, match=r"tests/\*\.rs"):
        run_project(room, paths=["src/lib.rs"])
    with pytest.raises(InvalidArguments, match="No test failed"):
        run_project(room, lastFailed=True)
    with pytest.raises(FileNotFound):
        run_project(room, paths=["tests/gone.rs"])
