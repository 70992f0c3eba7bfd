"""The core as a library: every name of the contract is there, and each costs only what it needs."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys

import pytest

import ollm_tui.core
from ollm_tui.core.base import errors
from ollm_tui.core.tools.base import ToolInvocation

PROMISED = {
    *("ToolRegistry", "Tool", "ToolInvocation", "ToolResult", "ToolError", "PolicyEngine", "PolicyConfig"),
    *("PolicyRule", "PolicyCondition", "PolicyDecision", "MessageBus", "Workspace", "ToolExecutor", "OutputFormatter"),
    *("ConfirmationDetails", "ConfirmationRequest", "ConfirmationResponse", "AbortController", "AbortSignal"),
    *("Parameters", "ToolData", "ToolFailure", "ToolGroup", "TouchedPath", "Preview", "UpdateOutput", "ToolContext"),
    *("CommandPreview", "DiffPreview", "DeletionPreview", "TextPreview", "UrlPreview", "TruncationConfig", "Risk"),
    *("CommandHub", "Memory", "TodoList", "WebAccess", "builtin_tools", "Effect"),
}


def test_every_promised_name_is_there() -> None:
    assert set(ollm_tui.core.__all__) >= PROMISED
    named_otherwise = {"PolicyDecision", "Preview", "UpdateOutput", "JsonObject"}  # aliases of types
    for name in set(ollm_tui.core.__all__) - named_otherwise:
        assert getattr(ollm_tui.core, name).__name__ == name
    assert all(hasattr(ollm_tui.core, name) for name in named_otherwise)


def test_every_failure_is_exported() -> None:
    failures = {
        name for name, each in inspect.getmembers(errors, inspect.isclass) if issubclass(each, errors.ToolFailure)
    }
    assert set(ollm_tui.core.__all__) >= failures


def test_type_checkers_see_the_same_names() -> None:
    tree = ast.parse(inspect.getsource(ollm_tui.core))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    seen = [alias.asname for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names]
    assert sorted(name or "" for name in seen) == sorted(ollm_tui.core.__all__)


def test_a_tool_has_at_most_eight_hooks() -> None:
    hooks = {
        name
        for name, member in vars(ToolInvocation).items()
        if inspect.isfunction(member) and not name.startswith("_") and not getattr(member, "__final__", False)
    }
    assert len(hooks) <= 8


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        ollm_tui.core.Nonsense  # type: ignore[attr-defined]  # noqa: B018  # that is the point


def test_a_module_loads_only_what_it_needs() -> None:
    code = "import sys, ollm_tui.core.base.clock; print('pydantic' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
