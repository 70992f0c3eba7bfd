"""What came of a call, in the few words of its line, from what the tools really return."""

from __future__ import annotations

from pathlib import Path

from ollm_tui.agent.events import LoggedResult
from ollm_tui.core.base.results import JsonObject
from ollm_tui.core.execution.options import AutoAnswer
from ollm_tui.tui.entry_texts import result_words
from tests.core.execution.test_bare_executor import bare

CALLS: list[tuple[str, JsonObject, str]] = [
    ("write_file", {"path": "main.py", "content": "x = 1\ny = 2\nx = 3\n"}, "+3 -0"),
    ("read_file", {"path": "main.py"}, "3 lines"),
    ("edit_file", {"path": "main.py", "edits": [{"target": "y = 2\n", "replacement": "a = 1\nb = 2\n"}]}, "+2 -1"),
    ("grep", {"pattern": "^x"}, "2 matches"),
    ("glob", {"pattern": "*.py"}, "1 file"),
    ("ls", {}, "1 entry"),
    ("write_todos", {"action": "add", "task": "t"}, "1 todo"),
    ("shell", {"command": "true"}, ""),
    ("shell", {"command": "exit 3"}, ""),
    ("shell", {"command": "sleep 600", "background": True}, "job j1"),
    ("delete_file", {"path": "main.py"}, "1 entry"),
    ("read_file", {"path": "main.py"}, "main.py: no such file or directory"),
]


async def test_a_result_is_said_in_a_few_words(tmp_path: Path) -> None:
    async with bare(tmp_path, AutoAnswer.YES) as executor:
        for name, arguments, words in CALLS:
            result = await executor.execute(name, arguments)
            assert result_words(name, LoggedResult.of(result)) == words, name


def test_test_runs_and_long_reasons_fit_the_line() -> None:
    counts: JsonObject = {"passed": 20, "failed": 3, "errors": 0, "skipped": 1}
    ran = LoggedResult(ok=True, llm_content="", return_display="", data=counts)
    assert result_words("run_tests", ran) == "3 failed, 20 passed"
    error = {"type": "X", "code": "X", "slug": "execution_error", "message": f"{'a' * 60}\nmore"}
    failed = LoggedResult.model_validate({"ok": False, "llmContent": "", "returnDisplay": "", "error": error})
    assert result_words("ls", failed) == f"{'a' * 43}…"


def test_failed_tests_are_counted_and_none_at_all_says_why() -> None:
    def words(tool: str, message: str, data: JsonObject, code: int) -> str:
        error = {"type": "X", "code": "X", "slug": "execution_error", "message": message}
        fields = {"ok": False, "llmContent": "", "returnDisplay": "", "error": error, "data": data, "exitCode": code}
        return result_words(tool, LoggedResult.model_validate(fields))

    assert words("run_tests", "1 of 2 failed", {"passed": 1, "failed": 1, "errors": 0}, 1) == "1 failed, 1 passed"
    none = "unittest found no tests. Name paths."
    assert words("run_tests", none, {"passed": 0, "failed": 0, "errors": 0}, 5) == "unittest found no tests"
    assert words("shell", "It failed", {}, 5) == ""
