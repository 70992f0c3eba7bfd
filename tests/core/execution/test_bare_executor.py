"""`ToolExecutor(registry, policy, bus, workspace)` alone runs every built-in tool (contract section 7)."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from pydantic import JsonValue

from ollm_tui.cli import main
from ollm_tui.core import MessageBus, PolicyConfig, PolicyEngine, ToolExecutor, Workspace
from ollm_tui.core.base.results import JsonObject
from ollm_tui.core.bus.states import Risk
from ollm_tui.core.execution.options import AutoAnswer, ExecutorOptions
from ollm_tui.core.policy.rules import Decision
from ollm_tui.core.tools.builtin import builtin_tools
from ollm_tui.core.tools.context import ToolContext
from ollm_tui.core.tools.registry import ToolRegistry
from ollm_tui.core.tools.schema import returns_schema
from ollm_tui.core.tools.web_fetch import HTTP_FETCH
from ollm_tui.core.web.client import WebAccess
from tests.core.tools.git_repositories import NOBODY, git, make_repository
from tests.core.web.server import reply, running_server

TEST = "import unittest\nclass T(unittest.TestCase):\n    def test(self): pass\n"
CALLS: list[tuple[str, JsonObject]] = [
    ("write_file", {"path": "a.txt", "content": "one\n"}),
    ("read_file", {"path": "a.txt"}),
    ("read_many_files", {"paths": ["*.txt"]}),
    ("edit_file", {"path": "a.txt", "edits": [{"target": "one", "replacement": "two"}]}),
    ("move_file", {"from": "a.txt", "to": "b.txt"}),
    ("glob", {"pattern": "*"}),
    ("grep", {"pattern": "two"}),
    ("ls", {}),
    ("git_status", {}),
    ("git_diff", {}),
    ("git_log", {}),
    ("git_show", {}),
    ("git_blame", {"path": "base"}),
    ("git_add", {"paths": ["b.txt"]}),
    ("git_commit", {"message": "second"}),
    ("git_branch", {"name": "side"}),
    ("git_checkout", {"revision": "side"}),
    ("git_push", {"branch": "side"}),
    ("search_code", {"query": "two"}),
    ("write_file", {"path": "test_d.py", "content": TEST}),
    ("install_package", {"manager": "pip", "packages": ["./x"]}),
    ("format_code", {"paths": ["test_d.py"]}),
    ("run_tests", {}),
    ("browser", {"action": "close"}),
    ("run_code", {"language": "bash", "code": "echo hello"}),
    ("shell", {"command": "echo hello"}),
    ("shell", {"command": "sleep 600", "background": True}),
    ("shell_output", {"id": "j1"}),
    ("shell_kill", {"id": "j1"}),
    ("memory", {"action": "set", "key": "k", "value": "v"}),
    ("memory_get", {"key": "k"}),
    ("memory_search", {"query": "k"}),
    ("write_todos", {"action": "add", "task": "t"}),
    ("delete_file", {"path": "b.txt"}),
    ("task", {"description": "d", "prompt": "p"}),
    ("propose_plan", {"steps": [{"task": "t"}]}),
]


def errors(value: JsonValue, schema: JsonObject) -> list[str]:
    return [f"{error.json_path}: {error.message}" for error in Draft202012Validator(schema).iter_errors(value)]


def bare(root: Path, auto_answer: AutoAnswer = AutoAnswer.NOBODY) -> ToolExecutor:
    registry = ToolRegistry()
    for tool in builtin_tools():
        registry.register(tool)
    policy = PolicyEngine(PolicyConfig(default_action=Decision.ALLOW, rules=[]))
    return ToolExecutor(
        registry, policy, MessageBus(), Workspace(root), options=ExecutorOptions(auto_answer=auto_answer)
    )


def repository_with_a_remote(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, value in NOBODY.items():
        monkeypatch.setenv(name, value)
    root = make_repository(folder / "workspace", {"base": "base\n"})
    formatter = root / "node_modules/.bin/ruff"
    formatter.parent.mkdir(parents=True)
    formatter.write_text("#!/bin/sh\ncat\n")
    formatter.chmod(0o755)
    git(root, "remote", "add", "origin", str(make_repository(folder / "there", None, "--bare")))
    return root


async def test_every_builtin_tool_runs_without_services(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    root = repository_with_a_remote(tmp_path, monkeypatch)
    names = {tool.name for tool in builtin_tools()}
    async with bare(root, AutoAnswer.YES) as executor, running_server() as server:
        calls = [call for call in CALLS if call[0] in names]
        calls += [(name, {"url": f"{server.origin}/"}) for name in ("web_fetch", "http_fetch")]
        calls += [("web_search", {"query": "x"})]
        assert {name for name, _ in calls} == names
        results = [(name, await executor.execute(name, arguments)) for name, arguments in calls]
    failed = {name: result.error.type for name, result in results if result.error is not None}
    # A local server must be listed, and no search provider is configured, nor is there an agent.
    assert failed == {
        "install_package": "ValidationError",  # an index is needed for more
        "web_fetch": "UrlNotAllowedError",
        "http_fetch": "UrlNotAllowedError",
        "web_search": "SearchError",
        "task": "TaskError",
    }
    assert dict(results)["memory_get"].llm_content == "v"


async def test_what_every_tool_returns_fits_its_schema(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    root = repository_with_a_remote(tmp_path, monkeypatch)
    more: list[tuple[str, JsonObject]] = [
        ("memory", {"action": "get", "key": "k"}),
        ("memory", {"action": "list"}),
        ("ls", {"recursive": True}),
        ("read_file", {"path": "c.txt"}),
    ]
    checked: set[str] = set()
    async with running_server() as server:
        server.answers["*"] = reply("<p>hello</p>")
        web = WebAccess([f"127.0.0.1:{server.port}"])
        options = ExecutorOptions(context=ToolContext(bus=MessageBus(), web=web), auto_answer=AutoAnswer.YES)
        requests: list[tuple[str, JsonObject]] = [
            (name, {"url": f"{server.origin}/"}) for name in ("web_fetch", "http_fetch")
        ]
        async with ToolExecutor(
            bare(root).registry, bare(root).policy, MessageBus(), Workspace(root), False, options
        ) as run:
            for name, arguments in [*CALLS[:-1], *more, *requests, *CALLS[-1:]]:
                tool = run.registry.get(name)
                if tool is None:
                    continue
                result = await run.execute(name, arguments)
                data = result.on_stdout().get("data")
                if data is not None:
                    schema = returns_schema(tool)
                    assert errors(data, schema) == [], (name, data)
                    checked.add(name)
    assert checked == {tool.name for tool in builtin_tools()} - {"install_package", "web_search", "task"}


def test_schemas_of_what_is_returned_name_the_parts(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tool", "schema", "--returns"]) == 0
    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    schemas = {line["name"]: line["returns"] for line in printed}
    assert schemas.keys() == {tool.name for tool in builtin_tools()}
    assert "entries" in schemas["ls"]["properties"] and "matches" in schemas["grep"]["properties"]
    assert [part["$ref"] for part in schemas["memory"]["anyOf"]] == ["#/$defs/MemoryData", "#/$defs/MemoryKeysData"]


async def test_what_was_made_on_demand_ends_with_the_executor(tmp_path: Path) -> None:
    executor = bare(tmp_path)
    await executor.execute("memory", {"action": "set", "key": "k", "value": "v"})
    assert (await executor.execute("memory", {"action": "get", "key": "k"})).llm_content == "v"
    await executor.aclose()
    assert (await executor.execute("memory", {"action": "get", "key": "k"})).llm_content == "Key not found"
    await executor.aclose()


async def test_a_bare_bus_is_enough_to_ask_about_a_request() -> None:
    from ollm_tui.core import AbortController

    call = HTTP_FETCH.create_invocation({"url": "https://example.org/x", "method": "DELETE"}, MessageBus())
    details = await call.should_confirm_execute(AbortController().signal)
    assert details and (details.risk, details.tool_name) == (Risk.HIGH, "http_fetch")


@pytest.mark.parametrize(("method", "risk"), [("GET", Risk.MEDIUM), ("POST", Risk.HIGH), ("DELETE", Risk.HIGH)])
async def test_the_risk_of_a_request_goes_by_its_method(tmp_path: Path, method: str, risk: Risk) -> None:
    async with bare(tmp_path) as executor:
        explanation = await executor.explain("http_fetch", {"url": "https://example.org/", "method": method})
    assert explanation.risk is risk
    assert executor.policy.get_risk_level("http_fetch", HTTP_FETCH, {"method": method}) is risk
    assert executor.policy.get_risk_level("http_fetch", HTTP_FETCH) is Risk.MEDIUM


async def test_what_the_screen_shows_of_a_cut_shell_result_counts_all_that_is_missing(tmp_path: Path) -> None:
    policy = PolicyEngine(PolicyConfig(default_action=Decision.ALLOW))
    options = ExecutorOptions(auto_answer=AutoAnswer.YES)
    registry = ToolRegistry()
    registry.register(next(tool for tool in builtin_tools() if tool.name == "shell"))
    async with ToolExecutor(registry, policy, MessageBus(), Workspace(tmp_path), False, options) as one:
        result = await one.execute("shell", {"command": "seq 300000"})
    for text in (result.llm_content, result.return_display):
        told = [int(number) for number in re.findall(r"\[\.\.\. (\d+) lines omitted \.\.\.\]", text)]
        assert len(told) == 1 and told[0] >= 298_000, text[-300:]
