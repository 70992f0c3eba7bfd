"""The core as a library: every name of the contract is there, and each costs only what it needs."""

from __future__ import annotations

import subprocess
import sys

import pytest

import ollm_tui.core


def test_every_promised_name_is_there() -> None:
    for name in ollm_tui.core.__all__:
        assert getattr(ollm_tui.core, name).__name__ == ("Decision" if name == "PolicyDecision" else name)
    promised = {"ToolRegistry", "Tool", "ToolInvocation", "ToolResult", "ToolError", "PolicyEngine", "PolicyConfig"}
    promised |= {
        "PolicyRule",
        "PolicyCondition",
        "MessageBus",
        "ConfirmationDetails",
        "ConfirmationRequest",
        "Workspace",
    }
    promised |= {"ConfirmationResponse", "OutputFormatter", "ToolExecutor", "AbortController", "AbortSignal"}
    assert promised <= set(ollm_tui.core.__all__)


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        ollm_tui.core.Nonsense  # type: ignore[attr-defined]  # noqa: B018  # that is the point


def test_one_room_does_not_load_the_house() -> None:
    code = "import sys, ollm_tui.core.base.clock; print('pydantic' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
