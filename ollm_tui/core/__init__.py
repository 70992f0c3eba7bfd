"""Tool and policy core: a library of its own. It draws nothing and knows no model (contract section 7)."""

from ollm_tui.core.base.abort import AbortController, AbortSignal
from ollm_tui.core.base.output import OutputFormatter, TruncationConfig
from ollm_tui.core.base.results import ToolError, ToolResult
from ollm_tui.core.base.workspace import Workspace
from ollm_tui.core.bus import MessageBus
from ollm_tui.core.confirmation import ConfirmationDetails, ConfirmationRequest, ConfirmationResponse, Risk
from ollm_tui.core.executor import ToolExecutor
from ollm_tui.core.policy.engine import PolicyEngine
from ollm_tui.core.policy.rules import PolicyCondition, PolicyConfig, PolicyDecision, PolicyRule
from ollm_tui.core.tools.base import Effect, Parameters, Tool, ToolContext, ToolGroup, ToolInvocation
from ollm_tui.core.tools.registry import ToolRegistry

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
