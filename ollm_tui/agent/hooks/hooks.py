"""Tell hooks what happens, and put their answers together: they tighten and rewrite, they loosen nothing."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from pydantic import JsonValue

from ollm_tui.agent.hooks.claude_shape import claude_arguments, claude_name, own_arguments
from ollm_tui.agent.hooks.entries import Hook, HookEvent, HookSettings, in_words
from ollm_tui.agent.hooks.process import HookOutcome, run_hook, shown
from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.base.escape import visible_block
from ollm_tui.core.base.results import JsonObject, ToolResult
from ollm_tui.core.execution.call_hooks import HookedCall, HookWord
from ollm_tui.core.policy.engine import Floor
from ollm_tui.core.policy.rules import Decision

_SUBJECTS = ("source", "trigger", "notification_type", "reason")
"""What matchers of events look at that are not about a tool."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class SessionFacts:
    """What every hook is told about the session."""

    id: str = ""
    log: str = ""
    """The path of its log."""


@dataclass(frozen=True)
class HookTexts:
    """What hooks of an event of the conversation have said."""

    blocked: str = ""
    """Why it may not go on, naming the hook; empty where it may."""
    context: tuple[str, ...] = ()
    """Texts for the model."""


class Hooks:
    """All hooks of a process; of one event they run beside each other, and answer in the order of the files."""

    def __init__(self, settings: HookSettings, workspace: Path) -> None:
        self.settings = settings
        self.session: Callable[[], SessionFacts] = SessionFacts
        self.tell: Callable[[str], object] = log.warning
        """Takes sentences for the person: what a hook has to say to them, and that one failed."""
        self.why_not: Callable[[str, str, AbortSignal], Awaitable[str]] = _nothing_against
        """Returns why a hook's command must not run now; given the hook in words, and the command."""
        self._workspace = workspace

    # -- of calls, for the executor ----------------------------------------------------------------------------------

    async def before(self, call: HookedCall, signal: AbortSignal) -> HookWord:
        """Return what the hooks before a tool make of the call."""
        outcomes = await self._tell_of(HookEvent.PRE_TOOL_USE, call, {}, signal)
        word = HookWord()
        for outcome in outcomes:
            word = word.and_then(self._word_of(outcome, call))
        return word

    async def asked(self, call: HookedCall, reason: str, signal: AbortSignal) -> str:
        """Return why a question must not even be asked, naming the hook; empty where it may."""
        outcomes = await self._tell_of(HookEvent.PERMISSION_REQUEST, call, {"reason": reason}, signal)
        for outcome in outcomes:
            decision = _nested(outcome, "decision")
            behavior = decision.get("behavior") if isinstance(decision, dict) else decision
            if outcome.blocks or behavior in ("deny", "block") or (outcome.failure and outcome.hook.on_error == "deny"):
                said = str(decision.get("message", "")) if isinstance(decision, dict) else ""
                return f"denied by hook {outcome.hook.name}: {shown(said) or _reason(outcome)}"
        return ""

    async def after(self, call: HookedCall, result: ToolResult, signal: AbortSignal) -> tuple[str, ...]:
        """Return what the hooks after a tool tell the model about its result."""
        event = HookEvent.POST_TOOL_USE if result.ok else HookEvent.POST_TOOL_USE_FAILURE
        response: JsonObject = {"llmContent": result.llm_content, "success": result.ok}
        if result.error is not None:
            response["error"] = result.error.message
        if isinstance(result.data, dict):
            response |= {name: result.data[name] for name in ("stdout", "stderr", "exitCode") if name in result.data}
        more: JsonObject = {"tool_response": response, "duration_ms": result.duration_ms}
        if result.error is not None:
            more["error"] = result.error.message
        notes: list[str] = []
        for outcome in await self._tell_of(event, call, more, signal):
            if said := _said_after(outcome):
                notes.append(f"hook {outcome.hook.name}: {said}")
        return tuple(notes)

    # -- of the conversation -----------------------------------------------------------------------------------------

    async def about(self, event: HookEvent, facts: JsonObject, signal: AbortSignal) -> HookTexts:
        """Return what the hooks of an event of the conversation say."""
        blocked = ""
        context: list[str] = []
        for outcome in await self.run(event, facts, signal):
            stops = outcome.failure and outcome.hook.on_error == "deny"
            if not blocked and (_denies(outcome) or stops):
                blocked = f"hook {outcome.hook.name}: {_reason(outcome)}"
            more = _nested(outcome, "additionalContext") or outcome.text
            context += [visible_block(str(more))] if more else []
        return HookTexts(blocked, tuple(context))

    async def run(self, event: HookEvent, facts: JsonObject, signal: AbortSignal) -> list[HookOutcome]:
        """Run the hooks of an event, told these facts and those about the session."""
        subjects = [str(facts[name]) for name in ("tool_name", "ollm_tool_name", *_SUBJECTS) if name in facts]
        hooks = self.settings.of(event, *subjects) if subjects else self.settings.of_event(event)
        return await self._run(hooks, event, facts, signal)

    # -- inside ------------------------------------------------------------------------------------------------------

    async def _tell_of(
        self, event: HookEvent, call: HookedCall, more: JsonObject, signal: AbortSignal
    ) -> list[HookOutcome]:
        hooks = self.settings.of(event, call.tool, claude_name(call.tool))
        if not hooks:
            return []
        facts: JsonObject = {
            "tool_name": claude_name(call.tool),
            "tool_input": claude_arguments(call.tool, call.arguments),
            "tool_use_id": call.call_id,
            "ollm_tool_name": call.tool,
            "ollm_origin": call.origin,
        }
        return await self._run(hooks, event, facts | more, signal)

    async def _run(
        self, hooks: list[Hook], event: HookEvent, facts: JsonObject, signal: AbortSignal
    ) -> list[HookOutcome]:
        session = self.session()
        given: JsonObject = {
            "session_id": session.id,
            "transcript_path": session.log,
            "cwd": str(self._workspace),
            "hook_event_name": event.value,
            **facts,
        }
        outcomes = await asyncio.gather(*(self._run_one(hook, given, signal) for hook in hooks))
        for outcome in outcomes:
            if outcome.failure:
                self.tell(f"The hook {outcome.hook.name} ({event}) failed: {outcome.failure}.")
            elif message := (outcome.answer or {}).get("systemMessage"):
                self.tell(f"hook {outcome.hook.name}: {shown(str(message))}")
        return outcomes

    async def _run_one(self, hook: Hook, given: JsonObject, signal: AbortSignal) -> HookOutcome:
        command = in_words(hook, self._workspace)
        why_not = "" if hook.fault else await self.why_not(f"the hook {hook.name}", command, signal)
        return HookOutcome(hook, failure=why_not) if why_not else await run_hook(hook, given, self._workspace, signal)

    def _word_of(self, outcome: HookOutcome, call: HookedCall) -> HookWord:
        """Return what one hook makes of a call; a yes answers nothing, for it could loosen."""
        name = outcome.hook.name
        if outcome.failure:
            match outcome.hook.on_error:
                case "ignore":
                    return HookWord(notes=(f"the hook {name} failed: {outcome.failure}",))
                case "ask":
                    return HookWord((Floor(Decision.ASK, f"the hook {name} failed: {outcome.failure}"),))
                case "deny":
                    return HookWord((Floor(Decision.DENY, f"denied by hook {name}, which failed: {outcome.failure}"),))
        if _denies(outcome):
            return HookWord((Floor(Decision.DENY, f"denied by hook {name}: {_reason(outcome)}"),))
        floors: tuple[Floor, ...] = ()
        if _nested(outcome, "permissionDecision") == "ask":
            floors = (Floor(Decision.ASK, f"hook {name} asks: {_reason(outcome)}"),)
        context = _nested(outcome, "additionalContext")
        notes = (f"hook {name}: {shown(str(context))}",) if context else ()
        updated = _nested(outcome, "updatedInput")
        if not isinstance(updated, dict):
            return HookWord(floors, notes=notes)
        changed = own_arguments(call.tool, call.arguments, updated)
        return HookWord(floors, changed, (*notes, f"the hook {name} changed the arguments"), f"changed by hook {name}")


async def _nothing_against(who: str, command: str, signal: AbortSignal) -> str:
    return ""


def _denies(outcome: HookOutcome) -> bool:
    answer = outcome.answer or {}
    said = _nested(outcome, "permissionDecision") or answer.get("decision")
    return outcome.blocks or said in ("deny", "block") or answer.get("continue") is False


def _reason(outcome: HookOutcome) -> str:
    answer = outcome.answer or {}
    given = _nested(outcome, "permissionDecisionReason") or answer.get("reason") or answer.get("stopReason")
    return shown(str(given or "")) or outcome.reason or outcome.failure or "it gave no reason"


def _said_after(outcome: HookOutcome) -> str:
    if outcome.failure:
        return "" if outcome.hook.on_error == "ignore" else f"failed: {outcome.failure}"
    context = _nested(outcome, "additionalContext")
    said = _reason(outcome) if _denies(outcome) else ""
    return "; ".join(each for each in (said, shown(str(context or ""))) if each)


def _nested(outcome: HookOutcome, key: str) -> JsonValue:
    """Return what a hook said about its own event."""
    specific = (outcome.answer or {}).get("hookSpecificOutput")
    return specific.get(key) if isinstance(specific, dict) else None
