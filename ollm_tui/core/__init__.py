"""Tool and policy core: a library of its own. It draws nothing and knows no model (contract section 7).

What it exports is loaded when first asked for, so that a program pays only for what it uses.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # fmt: off
    # isort: off
    from ollm_tui.core.base.abort import AbortController as AbortController, AbortSignal as AbortSignal
    from ollm_tui.core.base.errors import (
        BinaryFile as BinaryFile, ConfirmationCancelled as ConfirmationCancelled,
        ConfirmationDenied as ConfirmationDenied, ConfirmationTimeout as ConfirmationTimeout,
        EditNoChange as EditNoChange, EditTargetAmbiguous as EditTargetAmbiguous,
        EditTargetNotFound as EditTargetNotFound, EncodingFailure as EncodingFailure, FetchFailed as FetchFailed,
        FetchTimeout as FetchTimeout, FileChanged as FileChanged, FileEditFailed as FileEditFailed,
        FileExists as FileExists, FileNotFound as FileNotFound, FileReadFailed as FileReadFailed,
        FileTooLarge as FileTooLarge, FileWriteFailed as FileWriteFailed, GlobFailed as GlobFailed,
        GrepFailed as GrepFailed, HttpFailure as HttpFailure, Internal as Internal,
        InvalidArguments as InvalidArguments, InvalidPath as InvalidPath, IsADirectory as IsADirectory,
        LsFailed as LsFailed, McpFailed as McpFailed, MemoryFailed as MemoryFailed, NoPermission as NoPermission,
        NoSpace as NoSpace,
        NotADirectory as NotADirectory, OperationCancelled as OperationCancelled, PolicyDenied as PolicyDenied,
        SandboxUnavailable as SandboxUnavailable, SearchFailed as SearchFailed,
        ShellExecutionFailed as ShellExecutionFailed, ShellIdleTimeout as ShellIdleTimeout,
        ShellTimeout as ShellTimeout, StorageFailed as StorageFailed, TaskFailed as TaskFailed,
        TodoFailed as TodoFailed, ToolFailure as ToolFailure, ToolNotFound as ToolNotFound, ToolTimeout as ToolTimeout,
        UrlNotAllowed as UrlNotAllowed,
    )
    from ollm_tui.core.base.output import OutputFormatter as OutputFormatter, TruncationConfig as TruncationConfig
    from ollm_tui.core.base.results import (
        JsonObject as JsonObject, ToolData as ToolData, ToolError as ToolError, ToolResult as ToolResult,
        UpdateOutput as UpdateOutput,
    )
    from ollm_tui.core.bus.confirmation import (
        CommandPreview as CommandPreview, ConfirmationDetails as ConfirmationDetails,
        ConfirmationRequest as ConfirmationRequest, ConfirmationResponse as ConfirmationResponse,
        DeletionPreview as DeletionPreview, DiffPreview as DiffPreview, FileToDelete as FileToDelete,
        Preview as Preview, TextPreview as TextPreview, UrlPreview as UrlPreview,
    )
    from ollm_tui.core.bus.message_bus import MessageBus as MessageBus
    from ollm_tui.core.bus.notices import Confirmation as Confirmation
    from ollm_tui.core.bus.states import (
        CallOutcome as CallOutcome, CallState as CallState,
        ConfirmationState as ConfirmationState, Origin as Origin, RememberScope as RememberScope, Risk as Risk,
    )
    from ollm_tui.core.execution.executor import ToolExecutor as ToolExecutor
    from ollm_tui.core.execution.options import AutoAnswer as AutoAnswer, ExecutorOptions as ExecutorOptions
    from ollm_tui.core.fence.workspace import Access as Access, Workspace as Workspace
    from ollm_tui.core.memory import Memory as Memory
    from ollm_tui.core.policy.engine import PolicyEngine as PolicyEngine
    from ollm_tui.core.policy.rules import (
        Mode as Mode, PolicyCondition as PolicyCondition, PolicyConfig as PolicyConfig,
        PolicyDecision as PolicyDecision, PolicyRule as PolicyRule,
    )
    from ollm_tui.core.shell.hub import CommandHub as CommandHub
    from ollm_tui.core.todos.todo_list import TodoList as TodoList
    from ollm_tui.core.tools.base import (
        CallFacts as CallFacts, Effect as Effect, Parameters as Parameters, Question as Question,
        SessionOffer as SessionOffer, Tool as Tool, ToolGroup as ToolGroup, ToolInvocation as ToolInvocation,
        TouchedPath as TouchedPath,
    )
    from ollm_tui.core.tools.builtin import builtin_tools as builtin_tools
    from ollm_tui.core.tools.context import Limits as Limits, ToolContext as ToolContext
    from ollm_tui.core.tools.registry import ToolRegistry as ToolRegistry
    from ollm_tui.core.tools.schema_parameters import schema_parameters as schema_parameters
    from ollm_tui.core.web.client import WebAccess as WebAccess
    # isort: on
    # fmt: on

_EXPORTS = {
    "base.abort": "AbortController AbortSignal",
    "base.errors": """
        BinaryFile ConfirmationCancelled ConfirmationDenied ConfirmationTimeout EditNoChange EditTargetAmbiguous
        EditTargetNotFound EncodingFailure FetchFailed FetchTimeout FileChanged FileEditFailed FileExists
        FileNotFound FileReadFailed FileTooLarge FileWriteFailed GlobFailed GrepFailed HttpFailure Internal
        InvalidArguments InvalidPath IsADirectory LsFailed McpFailed MemoryFailed NoPermission NoSpace NotADirectory
        OperationCancelled PolicyDenied SandboxUnavailable SearchFailed ShellExecutionFailed ShellIdleTimeout
        ShellTimeout StorageFailed TaskFailed TodoFailed ToolFailure ToolNotFound ToolTimeout UrlNotAllowed
    """,
    "base.output": "OutputFormatter TruncationConfig",
    "base.results": "JsonObject ToolData ToolError ToolResult UpdateOutput",
    "bus.confirmation": """
        CommandPreview ConfirmationDetails ConfirmationRequest ConfirmationResponse DeletionPreview DiffPreview
        FileToDelete Preview TextPreview UrlPreview
    """,
    "bus.message_bus": "MessageBus",
    "bus.notices": "Confirmation",
    "bus.states": "CallOutcome CallState ConfirmationState Origin RememberScope Risk",
    "execution.executor": "ToolExecutor",
    "execution.options": "AutoAnswer ExecutorOptions",
    "fence.workspace": "Access Workspace",
    "memory": "Memory",
    "policy.engine": "PolicyEngine",
    "policy.rules": "Mode PolicyCondition PolicyConfig PolicyDecision PolicyRule",
    "shell.hub": "CommandHub",
    "todos.todo_list": "TodoList",
    "tools.base": """
        CallFacts Effect Parameters Question SessionOffer Tool ToolGroup ToolInvocation TouchedPath
    """,
    "tools.builtin": "builtin_tools",
    "tools.context": "Limits ToolContext",
    "tools.registry": "ToolRegistry",
    "tools.schema_parameters": "schema_parameters",
    "web.client": "WebAccess",
}
"""Module below this one to the names that are exported from it."""

_MODULES = {name: f"{__name__}.{module}" for module, names in _EXPORTS.items() for name in names.split()}

__all__ = [*_MODULES]  # pyright: ignore[reportUnsupportedDunderAll]  # noqa: PLE0604  # names, and the imports say them, too


def __getattr__(name: str) -> object:
    """Load the module that exports `name` (PEP 562)."""
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(import_module(module), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    """Return the exported names, too."""
    return sorted({*globals(), *_MODULES})
