"""Whatever a caller sends, every tool answers with a typed result (contract "Arguments", "Errors"; 001 R10.1, R12.1)."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from ollm_tui.core.base.errors import ERROR_TABLE
from ollm_tui.core.base.results import ToolResult
from ollm_tui.core.tools.schema import function_schema
from tests.contract.contract_calls import Desk, open_desk

CALLS: dict[str, dict[str, JsonValue]] = {
    "read_file": {"path": "a.txt"},
    "read_many_files": {"paths": ["a.txt", "*.md"]},
    "write_file": {"path": "new.txt", "content": "x"},
    "edit_file": {"path": "a.txt", "edits": [{"target": "one", "replacement": "ONE"}]},
    "delete_file": {"path": "gone.txt"},
    "move_file": {"from": "from.txt", "to": "to.txt"},
    "glob": {"pattern": "**/*"},
    "grep": {"pattern": "one"},
    "ls": {"path": "."},
    "search_code": {"query": "one"},
    "run_tests": {"names": ["one"]},
    "install_package": {"manager": "pip", "packages": ["./x"]},
    "format_code": {"paths": ["a.txt"]},
    "git_status": {},
    "git_diff": {"paths": ["a.txt"]},
    "git_log": {"limit": 2},
    "git_show": {"revision": "HEAD"},
    "git_blame": {"path": "a.txt"},
    "git_add": {"paths": ["a.txt"]},
    "git_commit": {"message": "m"},
    "git_branch": {"name": "b"},
    "git_checkout": {"revision": "main"},
    "git_push": {"remote": "origin"},
    "shell": {"command": "true"},
    "run_code": {"language": "bash", "code": "true", "timeout": 5},
    "shell_output": {"id": "j1"},
    "shell_kill": {"id": "j1"},
    "memory": {"action": "set", "key": "k", "value": "v"},
    "memory_get": {"key": "k"},
    "memory_search": {"query": "k"},
    "write_todos": {"action": "add", "task": "t"},
    "propose_plan": {"steps": [{"task": "t", "paths": ["a.txt"]}]},
    "task": {"description": "d", "prompt": "p"},
    "exec": {"command": "true", "workdir": ".", "timeout": 5},
    "file_read": {"path": "a.txt", "startLine": 1},
    "file_write": {"path": "a.txt", "content": "y"},
    "file_search": {"pattern": "*", "type": "glob", "path": "."},
    "list_directory": {"path": ".", "recursive": True},
}
"""A sound call of each tool and each alias."""

NET_CALLS: dict[str, dict[str, JsonValue]] = {
    "web_fetch": {"url": "http://127.0.0.1:9/", "selector": "p", "maxLength": 10},
    "http_fetch": {"url": "http://127.0.0.1:9/", "method": "PUT", "body": "x", "headers": {"a": "b"}},
    "web_search": {"query": "words", "numResults": 1},
    "browser": {"action": "open", "url": "http://127.0.0.1:9/", "selector": "p", "text": "t"},
}
"""As CALLS, but only with addresses that are refused: a text that is none would be looked up."""

DEEP: JsonValue = {}
for _ in range(2_000):
    DEEP = {"a": DEEP}

NASTY: list[JsonValue] = [
    *("", "\0", "\ud800", "a\0b", "..", "../x", "/", "/etc/passwd", "/dev/null", "/proc/self/mem", "~/x", "a.txt/", "a.txt/b"),
    *("x" * 300, "x" * 5000, "./" * 5000, "\n", "a\nb", '"a\\nb"', '"\\377"', '"\\400"', '"a\\', "[", "{", "{a,b", "[!", "\\", "("),
    *("a{99999999999}", "(?=x)", "🙂", 10**400, -(10**30), float("inf"), float("nan"), 1e308, -0.0, 3.5, 2**64, True, None),
    *([], {}, [[]], {"a": {}}, ["\ud800"], {"\ud800": 1}, {"": ""}, "9" * 30, "[]", '["a"]', DEEP),
]  # fmt: skip


def assert_typed(result: ToolResult, about: object) -> None:
    assert result.llm_content, about
    json.dumps(result.on_stdout())
    if result.error is not None:
        assert result.error.type in ERROR_TABLE and result.error.message, about
        assert result.error.type != "InternalError", about


def furnish(desk: Desk) -> None:
    for name, content in {"a.txt": "one\ntwo\n", "b.md": "# b\n", "gone.txt": "x", "from.txt": "x"}.items():
        desk.write(name, content)


async def test_each_tool_answers_to_each_other_tools_arguments_in_every_shape(tmp_path: Path) -> None:
    """Invariant 15 of the tool facts."""
    async with open_desk(tmp_path) as desk:
        furnish(desk)
        every = (*CALLS, *NET_CALLS)
        for place, tool in enumerate(every):
            if tool not in CALLS and desk.core.registry.get(tool) is None:
                continue
            # Its own and those of two others; `test_mixed_batch` sends each tool the arguments of all, as they are.
            for other in (every[(place + step) % len(every)] for step in (0, 1, 11)):
                sent = {**CALLS, **NET_CALLS}[other]
                shapes: list[JsonValue] = [
                    *(sent, [sent], json.dumps(sent), list(sent.values()), None, True, 7, "text"),
                    *(dict.fromkeys(sent), {key: [value] for key, value in sent.items()}),
                    *({key: {"x": value} for key, value in sent.items()}, {key: str(value) for key, value in sent.items()}),
                ]  # fmt: skip
                for arguments in shapes:
                    assert_typed(await desk.raw(tool, arguments), (tool, arguments))


async def test_no_value_of_any_parameter_leads_past_the_types(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        furnish(desk)
        for name, sound in CALLS.items():
            tool = desk.core.registry.resolve(name, sound).tool
            properties = function_schema(tool)["parameters"]
            assert isinstance(properties, dict) and isinstance(properties["properties"], dict)
            # Each tool gets every value, and each parameter a third of them: all of all take a minute and a half.
            for place, parameter in enumerate(sorted({*properties["properties"], *sound})):
                for index, value in list(enumerate(NASTY))[place % 3 :: 3]:
                    if name == "shell" and parameter == "command" and isinstance(value, str):
                        continue  # any text is a command line; the shell's own tests run such
                    if name == "install_package" and parameter == "packages" and isinstance(value, str):
                        continue  # any word is a name that an index would be asked for; its own tests do that
                    result = await desk.raw(name, {**sound, parameter: value})
                    assert_typed(result, (name, parameter, index))


async def test_no_name_runs_anything_but_what_it_names(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        for name in (name for name in NASTY if isinstance(name, str)):
            result = await desk.raw(name, {})
            assert result.error is not None and result.error.type == "ToolNotFoundError", name
            json.dumps(result.on_stdout())


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)
parameter_names = st.sampled_from(sorted({key for call in CALLS.values() for key in call} | {"todos", "since", "wait"}))


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    calls=st.lists(
        st.tuples(
            st.sampled_from(sorted(set(CALLS) - {"shell", "exec"})),
            json_values | st.dictionaries(parameter_names, json_values, max_size=5),
        ),
        min_size=3,
        max_size=6,
    )
)
def test_random_json_ends_in_a_typed_result(tmp_path: Path, calls: list[tuple[str, JsonValue]]) -> None:
    async def run() -> None:
        async with open_desk(tmp_path) as desk:
            for name, arguments in calls:
                assert_typed(await desk.raw(name, arguments), (name, arguments))
                review = await desk.core.executor.review(name, arguments)
                assert review.reason

    asyncio.run(run())


@pytest.mark.parametrize(
    ("sent", "faults"),
    [
        ({}, ["path", "edits"]),
        ({"path": 1, "edits": []}, ["path", "edits"]),
        ({"path": "a", "edits": [{"target": 1}, {}]}, ["edits.0.target", "edits.0.replacement", "edits.1.target"]),
    ],
)
async def test_every_fault_is_named_at_once(tmp_path: Path, sent: JsonValue, faults: list[str]) -> None:
    async with open_desk(tmp_path) as desk:
        result = await desk.raw("edit_file", sent)
        assert result.error is not None and result.error.type == "ValidationError"
        for fault in faults:
            assert fault in result.error.message


@pytest.mark.parametrize(
    ("name", "sent", "noted"),
    [
        ("read_file", {"file_path": "a.txt"}, "file_path"),
        ("read_file", {"filename": "a.txt"}, "filename"),
        ("read_file", {"path": "a.txt", "nonsense": 1}, "nonsense"),
        ("read_file", {"path": "a.txt", "startLine": "1"}, "startLine"),
        ("read_many_files", {"paths": '["a.txt"]'}, "paths"),
        ("edit_file", {"path": "a.txt", "edits": [{"old_string": "one", "new_string": "1"}]}, "old_string"),
        ("edit_file", {"path": "a.txt", "edits": [{"old": "one", "new": "1"}]}, "new"),
        ("edit_file", {"path": "a.txt", "edits": '[{"target": "one", "replacement": "1"}]'}, "edits"),
        ("shell", {"cmd": "true"}, "cmd"),
    ],
)
async def test_mending_leaves_a_note(tmp_path: Path, name: str, sent: JsonValue, noted: str) -> None:
    async with open_desk(tmp_path) as desk:
        furnish(desk)
        result = await desk.raw(name, sent)
        assert result.ok and any(noted in note for note in result.notes), result
        assert f"[note: {result.notes[0]}]" in result.for_model()


async def test_whole_floats_are_integers_and_others_are_not(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        furnish(desk)
        assert await desk.text("read_file", path="a.txt", startLine=2.0) == "two\n"
        assert await desk.fault("read_file", path="a.txt", startLine=1.5) == "ValidationError"


@pytest.mark.parametrize("name", ["read_file", "READ_FILE", "Read-File", "readFile", "file_read", "File-Read"])
async def test_names_are_folded_and_aliases_resolved(tmp_path: Path, name: str) -> None:
    async with open_desk(tmp_path) as desk:
        furnish(desk)
        assert (await desk.call(name, path="a.txt")).ok


async def test_an_unknown_name_is_told_the_closest(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        result = await desk.call("read_fil", path="a.txt")
        assert result.error is not None
        assert (result.error.type, result.error.slug) == ("ToolNotFoundError", "not_found")
        assert "read_file" in result.error.message


async def test_snake_case_is_taken_for_camel_case(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        furnish(desk)
        result = await desk.call("read_file", path="a.txt", start_line=2, end_line=2)
        assert (result.llm_content, result.notes) == ("two", ())


# -- aliases with their own names and units (004) --------------------------------------------------------------------


async def test_exec_counts_in_seconds_and_names_its_directory_workdir(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        (desk.folder / "sub").mkdir()
        data = await desk.data("exec", command="pwd", workdir="sub")
        assert str(data["output"]).strip() == str(desk.folder / "sub")
        late = await desk.call("exec", command="sleep 20", timeout=1)
        assert late.error is not None and late.error.type == "ShellTimeoutError"
        assert late.error.details["limitMs"] == 1000


@pytest.mark.parametrize("sent", [{}, {"timeout": None}])
async def test_exec_has_180_seconds_by_default(tmp_path: Path, sent: dict[str, JsonValue]) -> None:
    async with open_desk(tmp_path) as desk:
        review = await desk.core.executor.review("exec", {"command": "true", **sent})
        assert review.arguments["timeout"] == 180_000


async def test_a_job_of_exec_lasts_until_somebody_ends_it(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        review = await desk.core.executor.review("exec", {"command": "true", "background": True})
        assert "timeout" not in review.arguments


async def test_file_read_numbers_a_range_and_nothing_else(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        furnish(desk)
        assert await desk.text("file_read", path="a.txt") == "one\ntwo\n"
        assert (await desk.text("file_read", path="a.txt", startLine=2)).rstrip("\n") == "2|two"
        assert (await desk.text("file_read", path="a.txt", startLine=None, endLine=None)) == "one\ntwo\n"


async def test_file_write_overwrites_and_is_asked_for_it(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        furnish(desk)
        assert await desk.decision("file_write", path="a.txt", content="new") == "ask"
        assert await desk.decision("file_write", path="other.txt", content="new") == "allow"
        await desk.text("file_write", path="a.txt", content="new")
        assert (desk.folder / "a.txt").read_text() == "new"


async def test_file_search_is_glob_or_grep_below_its_path(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        desk.write("sub/a.txt", "needle\n")
        desk.write("b.txt", "needle\n")
        assert await desk.text("file_search", pattern="*.txt", path="sub") == "sub/a.txt"
        assert await desk.text("file_search", pattern="needle", type="grep", path="sub") == "sub/a.txt:1: needle"
        assert await desk.text("file_search", pattern="*.txt", type="glob") == "b.txt"
        refused = await desk.call("file_search", pattern="needle", type="text")
        assert refused.error is not None
        assert (refused.error.type, "grep" in refused.error.message) == ("ValidationError", True)


async def test_list_directory_goes_all_the_way_down(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        desk.write("1/2/3/4/5/6/deep.txt", "")
        assert "deep.txt" in await desk.text("list_directory", path=".", recursive=True)
        assert "deep.txt" in await desk.text("list_directory", path=".", recursive="true", maxDepth=None)
        assert "deep.txt" not in await desk.text("ls", path=".", recursive=True)
        entries = (await desk.data("list_directory", path="."))["entries"]
        assert isinstance(entries, list) and isinstance(entries[0], dict)
        assert {"name", "type", "size", "modified"} <= entries[0].keys()
