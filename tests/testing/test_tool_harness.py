"""A tool under test goes the way of every call: judged, asked about, run, and what came of it is told."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ollm_tui.core import PolicyConfig, PolicyDecision, PolicyRule
from ollm_tui.core.bus.notices import ConfirmationRequested, ConfirmationSettled
from ollm_tui.core.tools.delete_file import DELETE_FILE
from ollm_tui.core.tools.write_file import WRITE_FILE
from ollm_tui.testing import Answer, ToolHarness

ALLOWED = PolicyConfig(rules=[PolicyRule(tool="write_file", action=PolicyDecision.ALLOW)])
ANY = PolicyConfig(rules=[PolicyRule(tool="*", action=PolicyDecision.ALLOW)])


async def test_an_allowed_call_acts_in_the_workspace_and_asks_nobody() -> None:
    async with ToolHarness(WRITE_FILE, policy=ALLOWED) as harness:
        run = await harness.call(path="a.txt", content="hello")
        assert run.result.ok and (harness.workspace / "a.txt").read_text() == "hello"
        assert (run.confirmations, run.notices) == ((), ())
    assert not harness.workspace.exists()


async def test_a_plugin_is_asked_about_until_a_rule_names_it() -> None:
    for plugin, asked in ((True, 1), (False, 0)):
        async with ToolHarness(WRITE_FILE, policy=ANY, answers=[Answer()], plugin=plugin) as harness:
            run = await harness.call(path="a.txt", content="hello")
            assert run.result.ok and len(run.confirmations) == asked


async def test_answers_are_given_in_order_and_each_call_tells_its_own() -> None:
    changed = Answer(modified_args={"path": "b.txt", "content": "changed"})
    async with ToolHarness(WRITE_FILE, answers=[Answer(False, reason="no"), changed, Answer()]) as harness:
        denied = await harness.call(path="a.txt", content="hello")
        assert denied.result.error is not None and "no" in denied.result.error.message
        assert [type(notice) for notice in denied.notices] == [ConfirmationRequested, ConfirmationSettled]
        edited = await harness.call(path="a.txt", content="hello")
        assert edited.result.ok and [one.details.args["path"] for one in edited.confirmations] == ["a.txt", "b.txt"]
        assert [file.name for file in harness.workspace.iterdir()] == ["b.txt"]


async def test_a_question_without_an_answer_fails_the_test() -> None:
    async with ToolHarness(WRITE_FILE) as harness:
        with pytest.raises(AssertionError, match=r"no answer is left for: .*a\.txt"):
            await harness.call(path="a.txt", content="hello")
        assert list(harness.workspace.iterdir()) == []


async def test_files_can_be_put_into_the_workspace() -> None:
    async with ToolHarness(WRITE_FILE, policy=ALLOWED) as harness:
        harness.write("deep/a.txt", b"old")
        run = await harness.call(path="deep/a.txt", content="new")
        assert run.result.error is not None and run.result.error.type == "FileExistsError"


def test_the_harness_loads_neither_a_test_runner_nor_the_screen() -> None:
    code = (
        "import sys\n"
        "import ollm_tui.testing\n"
        "print(sorted({'pytest', 'textual', 'rich', 'pyte', 'hypothesis'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=os.environ, check=True)
    assert done.stdout == "[]\n"


async def test_what_a_tool_deletes_stays_within_the_harness_and_ends_with_it(own_folders: Path) -> None:
    allowed = PolicyConfig(default_action=PolicyDecision.ALLOW)
    async with ToolHarness(DELETE_FILE, policy=allowed, answers=[Answer()], plugin=False) as harness:
        harness.write("a.txt", "one")
        run = await harness.call(path="a.txt")
        root = harness.workspace.parent
        assert run.result.ok and list((root / "trash").iterdir())
    assert not root.exists()
    assert not [path for path in own_folders.rglob("*") if path.name == "trash"]
