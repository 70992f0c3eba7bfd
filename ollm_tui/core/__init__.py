"""Tool and policy core: a library of its own. It draws nothing and knows no model (contract section 7).

The names are loaded when they are first asked for: whoever needs one room need not pay for the whole house.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ollm_tui.core.base.abort import AbortController, AbortSignal
    from ollm_tui.core.base.output import OutputFormatter, TruncationConfig
    from ollm_tui.core.base.results import ToolError, ToolResult
    from ollm_tui.core.bus.confirmation import ConfirmationDetails, ConfirmationRequest, ConfirmationResponse
    from ollm_tui.core.bus.message_bus import MessageBus
    from ollm_tui.core.bus.states import Risk
    from ollm_tui.core.execution.executor import ToolExecutor
    from ollm_tui.core.fence.workspace import Workspace
    from ollm_tui.core.policy.engine import PolicyEngine
    from ollm_tui.core.policy.rules import PolicyCondition, PolicyConfig, PolicyDecision, PolicyRule
    from ollm_tui.core.tools.base import Effect, Parameters, Tool, ToolGroup, ToolInvocation
    from ollm_tui.core.tools.context import ToolContext
    from ollm_tui.core.tools.registry import ToolRegistry

_HOMES = {
    "AbortController": "ollm_tui.core.base.abort",
    "AbortSignal": "ollm_tui.core.base.abort",
    "OutputFormatter": "ollm_tui.core.base.output",
    "TruncationConfig": "ollm_tui.core.base.output",
    "ToolError": "ollm_tui.core.base.results",
    "ToolResult": "ollm_tui.core.base.results",
    "Workspace": "ollm_tui.core.fence.workspace",
    "MessageBus": "ollm_tui.core.bus.message_bus",
    "ConfirmationDetails": "ollm_tui.core.bus.confirmation",
    "ConfirmationRequest": "ollm_tui.core.bus.confirmation",
    "ConfirmationResponse": "ollm_tui.core.bus.confirmation",
    "Risk": "ollm_tui.core.bus.confirmation",
    "ToolExecutor": "ollm_tui.core.execution.executor",
    "PolicyEngine": "ollm_tui.core.policy.engine",
    "PolicyCondition": "ollm_tui.core.policy.rules",
    "PolicyConfig": "ollm_tui.core.policy.rules",
    "PolicyDecision": "ollm_tui.core.policy.rules",
    "PolicyRule": "ollm_tui.core.policy.rules",
    "Effect": "ollm_tui.core.tools.base",
    "Parameters": "ollm_tui.core.tools.base",
    "Tool": "ollm_tui.core.tools.base",
    "ToolContext": "ollm_tui.core.tools.base",
    "ToolGroup": "ollm_tui.core.tools.base",
    "ToolInvocation": "ollm_tui.core.tools.base",
    "ToolRegistry": "ollm_tui.core.tools.registry",
}

__all__ = [
    "AbortController",
    "AbortSignal",
    "ConfirmationDetails",
    "ConfirmationRequest",
    "ConfirmationResponse",
    "Effect",
    "MessageBus",
    "OutputFormatter",
    "Parameters",
    "PolicyCondition",
    "PolicyConfig",
    "PolicyDecision",
    "PolicyEngine",
    "PolicyRule",
    "Risk",
    "Tool",
    "ToolContext",
    "ToolError",
    "ToolExecutor",
    "ToolGroup",
    "ToolInvocation",
    "ToolRegistry",
    "ToolResult",
    "TruncationConfig",
    "Workspace",
]


def __getattr__(name: str) -> object:
    """PEP 562: load the module that `name` lives in."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(import_module(home), name)
    globals()[name] = found
    return found
