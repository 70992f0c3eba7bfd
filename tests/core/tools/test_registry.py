"""Registry, schemas and mending (001 R1; contract section 1, "Arguments")."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Literal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import Field

from ollm_tui.core import (
    AbortController,
    ConfirmationDetails,
    Effect,
    JsonObject,
    MessageBus,
    Parameters,
    Risk,
    Tool,
    ToolContext,
    ToolGroup,
    ToolInvocation,
    ToolRegistry,
    ToolResult,
    Workspace,
)
from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.base.errors import InvalidArguments, ToolNotFound
from ollm_tui.core.base.escape import visible
from ollm_tui.core.base.results import UpdateOutput
from ollm_tui.core.tools.argument_repair import repair
from ollm_tui.core.tools.builtin import BUILTIN_TOOLS
from ollm_tui.core.tools.schema import SchemaFormat, function_schema
from ollm_tui.runtime.plugins import load_registry

NAMES = st.text(min_size=1, max_size=20)


class Step(Parameters):
    target: str
    replacement: str = ""


class Everything(Parameters):
    path: str = Field(description="Where")
    start_line: int | None = Field(None, ge=1)
    steps: list[Step] = Field(default_factory=list[Step])
    deep: bool = False
    kind: Literal["a", "b"] = "a"


class EverythingInvocation(ToolInvocation[Everything]):
    def get_description(self) -> str:
        return f"Do everything to {self.params.path}"

    async def execute(self, signal: AbortSignal, update_output: UpdateOutput | None = None) -> ToolResult:
        return ToolResult.of_text("done")


def tool(name: str = "everything", description: str = "Does everything") -> Tool[Everything]:
    return Tool(
        name=name,
        display_name=name,
        description=description,
        group=ToolGroup.SYSTEM,
        effect=Effect.READS,
        parameters=Everything,
        invocation=EverythingInvocation,
        risk=Risk.LOW,
    )


@given(NAMES)
def test_what_was_registered_is_found(name: str) -> None:
    """Properties 1 and 3."""
    registry, one = ToolRegistry(), tool(name)
    registry.register(one)
    assert registry.get(name) is one
    registry.unregister(name)
    assert registry.get(name) is None
    registry.unregister(name)


@given(NAMES)
def test_the_second_of_a_name_replaces_the_first(name: str) -> None:
    """Property 2."""
    registry, second = ToolRegistry(), tool(name, "the second")
    registry.register(tool(name))
    registry.register(second)
    assert registry.get(name) is second
    assert registry.list() == [second]


@given(st.lists(NAMES, unique=True, max_size=12), st.randoms(use_true_random=False))
def test_the_order_of_registering_does_not_show(names: list[str], random: object) -> None:
    """Properties 4 and 5."""
    tools = [tool(name, f"about {name}") for name in names]
    random.shuffle(tools)  # type: ignore[attr-defined]  # hypothesis hands out a random.Random
    registry = ToolRegistry()
    for each in tools:
        registry.register(each)
    assert [each.name for each in registry.list()] == sorted(names)
    assert registry.list() == registry.list()
    schemas = registry.get_function_schemas()
    assert [(schema["name"], schema["description"]) for schema in schemas] == [(n, f"about {n}") for n in sorted(names)]
    assert all(
        schema["parameters"]["properties"].keys() == {"path", "startLine", "steps", "deep", "kind"}
        for schema in schemas
    )


def test_a_schema_is_compact_and_says_what_is_required() -> None:
    parameters = function_schema(tool())["parameters"]
    assert parameters == {
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "Where"},
            "startLine": {"type": "integer"},
            "steps": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {"target": {"type": "string"}, "replacement": {"type": "string"}},
                    "required": ["target"],
                },
            },
            "deep": {"type": "boolean"},
            "kind": {"type": "string", "enum": ["a", "b"], "default": "a"},
        },
        "required": ["path"],
    }


def test_the_three_forms_say_the_same() -> None:
    bare = function_schema(tool())
    assert function_schema(tool(), SchemaFormat.OPENAI) == {"type": "function", "function": bare}
    renamed = {**bare, "input_schema": bare["parameters"]}
    del renamed["parameters"]
    assert function_schema(tool(), SchemaFormat.ANTHROPIC) == renamed


@pytest.mark.parametrize("name", ["READ_FILE", "read-file", "readFile", "file_read", "FILE-READ"])
def test_other_spellings_and_aliases_find_the_tool(name: str) -> None:
    registry = ToolRegistry()
    for each in BUILTIN_TOOLS:
        registry.register(each)
    assert registry.resolve(name, {"path": "a"}).tool.name == "read_file"


def test_aliases_are_never_listed() -> None:
    registry = ToolRegistry()
    for each in BUILTIN_TOOLS:
        registry.register(each)
    listed = {each.name for each in registry.list()}
    assert not listed & {"file_read", "file_write", "file_search", "list_directory", "exec"}


def test_an_alias_translates_its_arguments() -> None:
    registry = ToolRegistry()
    for each in BUILTIN_TOOLS:
        registry.register(each)
    found = registry.resolve("exec", {"command": "true", "workdir": "src"})
    assert (found.tool.name, found.arguments) == ("shell", {"command": "true", "cwd": "src", "timeout": 180_000})
    found = registry.resolve("file_search", {"pattern": "x", "type": "grep", "path": "src"})
    assert (found.tool.name, found.arguments) == ("grep", {"pattern": "x", "directory": "src"})
    assert registry.resolve("file_read", {"path": "a", "startLine": 2}).arguments == {
        "path": "a",
        "startLine": 2,
        "lineNumbers": True,
    }


@given(st.text(max_size=30))
@settings(max_examples=100)
def test_nothing_runs_on_similarity(name: str) -> None:
    registry = ToolRegistry()
    registry.register(tool("read_file"))
    folded = name.replace("-", "_").replace("_", "").casefold()
    if folded in ("readfile", "fileread"):
        assert registry.resolve(name).tool.name == "read_file"
    else:
        with pytest.raises(ToolNotFound):
            registry.resolve(name)


def test_an_unknown_name_is_told_the_closest() -> None:
    registry = ToolRegistry()
    for name in ("read_file", "write_file", "shell"):
        registry.register(tool(name))
    with pytest.raises(ToolNotFound, match="read_file") as caught:
        registry.resolve("read_fil")
    assert caught.value.slug == "not_found"


@pytest.mark.parametrize(
    ("given_arguments", "mended", "noted"),
    [
        ({"file_path": "a"}, {"path": "a"}, "file_path was read as path"),
        ({"filename": "a"}, {"path": "a"}, "filename was read as path"),
        ({"PATH": "a"}, {"path": "a"}, "PATH was read as path"),
        ({"path": "a", "start_line": "5"}, {"path": "a", "startLine": 5}, "startLine"),
        ({"path": "a", "startLine": 3.0}, {"path": "a", "startLine": 3}, ""),
        ({"path": "a", "startLine": 3.5}, {"path": "a", "startLine": 3.5}, ""),
        ({"path": "a", "deep": "true"}, {"path": "a", "deep": True}, "deep"),
        ({"path": "a", "mood": "good"}, {"path": "a"}, "mood was dropped"),
        (
            {"path": "a", "steps": ' [{"old": "x", "new_string": "y"}] '},
            {"path": "a", "steps": [{"target": "x", "new_string": "y"}]},
            "steps",
        ),
    ],
)
def test_near_misses_become_what_they_meant(
    given_arguments: dict[str, object], mended: dict[str, object], noted: str
) -> None:
    result = repair(tool(), given_arguments)  # type: ignore[arg-type]  # plain JSON
    if "steps" in mended:
        assert result.arguments == {"path": "a", "steps": [{"target": "x"}]}
    else:
        assert result.arguments == mended
    assert noted in "; ".join(result.notes)
    assert bool(result.notes) == bool(noted)


def test_a_known_parameter_is_never_overwritten_by_a_near_miss() -> None:
    result = repair(tool(), {"path": "right", "file_path": "wrong"})
    assert result.arguments == {"path": "right"}


@pytest.mark.parametrize(
    ("name", "given_arguments", "mended"),
    [
        ("grep", {"pattern": "x", "path": "src"}, {"pattern": "x", "directory": "src"}),
        ("glob", {"pattern": "*", "dir": "src"}, {"pattern": "*", "directory": "src"}),
        ("ls", {"directory": "src"}, {"path": "src"}),
        ("shell", {"command": "make", "workdir": "src"}, {"command": "make", "cwd": "src"}),
        ("shell", {"command": "make", "directory": "src"}, {"command": "make", "cwd": "src"}),
        ("shell", {"command": "make", "cwd": "a", "workdir": "b"}, {"command": "make", "cwd": "a"}),
        ("grep", {"pattern": "x", "path": None}, {"pattern": "x"}),
        ("write_file", {"directory": "src", "content": ""}, {"content": ""}),
        (
            "edit_file",
            {"file_path": "a", "old_string": "x", "new_string": "y", "mood": "good"},
            {"path": "a", "edits": [{"target": "x", "replacement": "y"}]},
        ),
        ("edit_file", {"file_path": "a", "old_string": "x"}, {"path": "a"}),
        (
            "edit_file",
            {"path": "a", "edits": {"target": "x", "new_text": "y"}},
            {"path": "a", "edits": [{"target": "x", "replacement": "y"}]},
        ),
        ("read_many_files", {"paths": "a"}, {"paths": ["a"]}),
        ("read_many_files", {"files": '["a", "b"]'}, {"paths": ["a", "b"]}),
        ("shell", {"command": ["ls", "a b"]}, {"command": "ls 'a b'"}),
        ("shell", {"command": ["ls", 1]}, {"command": ["ls", 1]}),
        ("write_file", {"path": "a", "content": ["x"]}, {"path": "a", "content": ["x"]}),
        ("write_todos", {"todos": [{"content": "x", "activeForm": "y"}]}, {"todos": [{"task": "x"}]}),
    ],
)
def test_the_shapes_that_models_know_from_other_tools_become_ours(
    name: str, given_arguments: dict[str, object], mended: dict[str, object]
) -> None:
    result = repair(load_registry()[0].resolve(name).tool, given_arguments)  # type: ignore[arg-type]  # plain JSON
    assert result.arguments == mended
    assert bool(result.notes) == (given_arguments != mended)


def test_arguments_that_do_not_fit_are_answered_with_what_fits() -> None:
    edit = load_registry()[0].resolve("edit_file").tool
    for given_arguments in ({"path": "a"}, "a", None):
        with pytest.raises(InvalidArguments, match=r"path, edits: \[{target, replacement, lineHint\?: integer, "):
            edit.create_invocation(given_arguments, MessageBus())


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)


@given(JSON)
@settings(max_examples=100)
def test_arguments_that_do_not_fit_are_a_validation_error(arguments: object) -> None:
    """Property 44: whatever comes, mended or not, it is an invocation or InvalidArguments."""
    mended = repair(tool(), arguments)  # type: ignore[arg-type]  # any JSON
    for candidate in (arguments, mended.arguments):
        invocation = refusal = None
        try:
            invocation = tool().create_invocation(candidate, MessageBus())
        except InvalidArguments as failure:
            refusal = failure.message
        if invocation is None:
            assert refusal is not None and refusal.startswith("everything")
        else:
            assert isinstance(candidate, dict) and isinstance(invocation.params, Everything)


def test_every_fault_is_named_at_once() -> None:
    with pytest.raises(InvalidArguments) as caught:
        tool().create_invocation({"startLine": "5", "deep": "yes", "steps": [{}]}, MessageBus())
    for part in ("path", "startLine", "deep", "steps.0.target"):
        assert part in caught.value.message


@pytest.mark.parametrize("each", BUILTIN_TOOLS, ids=lambda each: each.name)
def test_schemas_of_all_tools_hold_no_noise(each: Tool[Parameters]) -> None:
    text = json.dumps(function_schema(each, SchemaFormat.OPENAI))
    for noise in ("$ref", "$defs", "anyOf", '"title"', "additionalProperties", '"null"'):
        assert noise not in text


TEXT = st.text(min_size=1, max_size=30)


@st.composite
def sound_calls(draw: st.DrawFn) -> tuple[str, JsonObject]:
    """A call of a built-in tool with arguments that its schema takes."""
    text, path = draw(TEXT), draw(st.sampled_from(["a.txt", "sub/ä b", ".", "*.py", "-x", "a\nb"]))
    calls: dict[str, JsonObject] = {
        "read_file": {"path": path},
        "read_many_files": {"paths": [path, "b"]},
        "write_file": {"path": path, "content": text},
        "edit_file": {"path": path, "edits": [{"target": text, "replacement": "x"}]},
        "delete_file": {"path": path},
        "move_file": {"from": path, "to": "other"},
        "glob": {"pattern": "*.py", "directory": path},
        "grep": {"pattern": "x", "directory": path},
        "ls": {"path": path},
        "search_code": {"query": f"x{text}", "paths": [path]},
        "git_status": {"path": path},
        "git_diff": {"revision": "HEAD", "paths": [path]},
        "git_log": {"author": "ann", "limit": 3},
        "git_show": {"path": path},
        "git_blame": {"path": path},
        "git_add": {"paths": ["a", "sub"]},
        "git_commit": {"message": f"m{text}"},
        "git_branch": {"name": "side", "from": "HEAD"},
        "git_checkout": {"revision": "main", "create": True},
        "git_push": {"branch": "main"},
        "shell": {"command": draw(st.sampled_from(["ls -l", "echo 'a b' | cat", "rm -rf /"]))},
        "run_code": {"language": "python", "code": text},
        "install_package": {"manager": "npm", "packages": [text, path], "dev": True},
        "format_code": {"paths": [path], "check": True},
        "run_tests": {"paths": [path], "names": [f"x{text}"]},
        "shell_output": {"id": text},
        "shell_kill": {"id": text},
        "web_fetch": {"url": f"https://example.org/{draw(st.integers())}"},
        "http_fetch": {"url": "https://example.org/", "method": draw(st.sampled_from(["GET", "POST", "DELETE"]))},
        "web_search": {"query": f"x{text}"},
        "browser": {"action": "click", "selector": text},
        "memory": {"action": "set", "key": f"k{text}", "value": text},
        "memory_get": {"key": f"k{text}"},
        "memory_search": {"query": f"x{text}"},
        "write_todos": {"action": "add", "task": f"x{text}"},
        "propose_plan": {"steps": [{"task": f"x{text}"}]},
        "task": {"description": f"x{text}", "prompt": f"x{text}"},
    }
    assert calls.keys() == {each.name for each in BUILTIN_TOOLS}
    name = draw(st.sampled_from(sorted(calls)))
    return name, calls[name]


def invocation_of(call: tuple[str, JsonObject]) -> ToolInvocation[Any]:
    each = next(each for each in BUILTIN_TOOLS if each.name == call[0])
    return each.create_invocation(call[1], ToolContext(bus=MessageBus(), workspace=Workspace(".")))


SOUND = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@given(sound_calls())
@SOUND
def test_property_45_every_call_describes_itself_in_a_readable_line(call: tuple[str, JsonObject]) -> None:
    """000 Property 45."""
    described = invocation_of(call).get_description()
    assert described.strip() and described == visible(described)


@given(sound_calls())
@SOUND
def test_property_46_every_call_names_the_paths_and_resources_it_affects(call: tuple[str, JsonObject]) -> None:
    """000 Property 46."""
    name, arguments = call
    locations = invocation_of(call).tool_locations()
    assert all(isinstance(each, str) for each in locations)  # pyright: ignore[reportUnnecessaryIsInstance]  # the property
    resources = ("path", "to", "directory", "url", *(() if name == "git_branch" else ("from",)))  # there a revision
    given = [arguments[key] for key in resources if key in arguments]
    assert set(given) <= set(locations)
    placeless = ("memory", "shell_", "write_todos", "web_search", "propose_plan", "task")
    assert (not locations) == name.startswith(placeless)


@given(sound_calls())
@SOUND
def test_property_47_every_call_asks_with_details_or_not_at_all(call: tuple[str, JsonObject]) -> None:
    """000 Property 47."""
    invocation = invocation_of(call)
    asked = asyncio.run(invocation.should_confirm_execute(AbortController().signal))
    if asked is not False:
        assert isinstance(asked, ConfirmationDetails)  # pyright: ignore[reportUnnecessaryIsInstance]  # the property
        assert (asked.tool_name, asked.description) == (invocation.tool.name, invocation.get_description())
    if invocation.tool.needs_approval(invocation.params):
        assert asked is not False
