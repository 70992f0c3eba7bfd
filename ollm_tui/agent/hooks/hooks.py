"""Tell hooks what happens, and put their answers together: they tighten and rewrite, they loosen nothing."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pydantic import JsonValue

from ollm_tui.agent.hooks.entries import Hook, HookEvent, HookSettings, in_words
from ollm_tui.agent.hooks.process import HookOutcome, run_hook, shown
from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.base.escape import visible, visible_block
from ollm_tui.core.base.results import JsonObject, ToolResult
from ollm_tui.core.bus.message_bus import MessageBus
from ollm_tui.core.bus.notices import ConfirmationRequested, Notice
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


_NAMES: Mapping[str, str] = {
    "shell": "Bash",
    "read_file": "Read",
    "write_file": "Write",
    "edit_file": "Edit",
    "glob": "Glob",
    "grep": "Grep",
    "ls": "LS",
    "web_fetch": "WebFetch",
    "web_search": "WebSearch",
    "write_todos": "TodoWrite",
    "task": "Task",
    "shell_output": "BashOutput",
    "shell_kill": "KillShell",
}

_ARGUMENTS: Mapping[str, Mapping[str, str]] = {
    "read_file": {"file_path": "path"},
    "write_file": {"file_path": "path"},
    "edit_file": {"file_path": "path"},
    "glob": {"path": "directory"},
    "grep": {"path": "directory", "glob": "filePattern"},
    "shell": {"run_in_background": "background"},
}
"""Their argument, and ours that it stands for."""


def claude_name(tool: str) -> str:
    """Return what Claude Code calls a tool; its own name where that has none."""
    return _NAMES.get(tool, tool)


def claude_arguments(tool: str, arguments: JsonObject) -> JsonObject:
    """Return the arguments with theirs beside ours."""
    theirs: JsonObject = {their: arguments[our] for their, our in _ARGUMENTS.get(tool, {}).items() if our in arguments}
    if edit := _single_edit(tool, arguments):
        theirs |= {"old_string": edit.get("target"), "new_string": edit.get("replacement")}
    return {**arguments, **theirs}


def own_arguments(tool: str, arguments: JsonObject, updated: Mapping[str, JsonValue]) -> JsonObject:
    """Return the arguments with a hook's changes; what it changed under their name counts for ours."""
    told = claude_arguments(tool, arguments)
    changed = {**arguments, **{name: value for name, value in updated.items() if name in arguments or name not in told}}
    for their, our in _ARGUMENTS.get(tool, {}).items():
        if their in updated and updated[their] != told.get(their):
            changed[our] = updated[their]
        if their not in arguments:
            changed.pop(their, None)
    if edit := _single_edit(tool, changed):
        new = {**edit}
        for their, our in (("old_string", "target"), ("new_string", "replacement")):
            if their in updated and updated[their] != told.get(their):
                new[our] = updated[their]
            changed.pop(their, None)
        changed["edits"] = [new]
    return changed


def _single_edit(tool: str, arguments: JsonObject) -> Mapping[str, JsonValue] | None:
    edits = arguments.get("edits")
    if tool != "edit_file" or not isinstance(edits, list) or len(edits) != 1:
        return None
    only = edits[0]
    return only if isinstance(only, dict) else None


MOST_CONTINUED = 8
"""How often hooks may let the model go on in one turn."""

ENDING_SECONDS = 2.0
"""How long the end of a session waits for its hooks in all."""


class TurnHooks:
    """The hooks of one conversation."""

    def __init__(self, hooks: Hooks, tell: Callable[[str], object]) -> None:
        self._hooks = hooks
        self._tell = tell
        self._continued = 0
        self._notifying: set[asyncio.Task[object]] = set()

    async def before_message(self, text: str, signal: AbortSignal) -> HookTexts:
        """Return why a message may not be sent, or what goes along with it."""
        self._continued = 0
        return await self._hooks.about(HookEvent.USER_PROMPT_SUBMIT, {"prompt": text}, signal)

    async def at_start(self, *, resumed: bool, signal: AbortSignal) -> tuple[str, ...]:
        """Return what goes along with the first message."""
        facts = {"source": "resume" if resumed else "startup"}
        return (await self._hooks.about(HookEvent.SESSION_START, {**facts}, signal)).context

    async def after_answer(self, signal: AbortSignal) -> str:
        """Return what the model should go on with; empty where the turn may end."""
        active = self._continued > 0
        more = (await self._hooks.about(HookEvent.STOP, {"stop_hook_active": active}, signal)).blocked
        if more and self._continued == MOST_CONTINUED:
            self._tell(f"Hooks let the model go on {MOST_CONTINUED} times. The turn ends now.")
            return ""
        self._continued += 1
        return more

    async def after_task(self, name: str, signal: AbortSignal) -> None:
        """Tell that a sub-agent has answered."""
        await self._hooks.about(HookEvent.SUBAGENT_STOP, {"stop_hook_active": False, "agent_type": name}, signal)

    async def before_compaction(self, hint: str | None, signal: AbortSignal) -> None:
        """Tell that earlier messages give way, with the person's words where they wanted it."""
        trigger = "auto" if hint is None else "manual"
        await self._hooks.about(HookEvent.PRE_COMPACT, {"trigger": trigger, "custom_instructions": hint or ""}, signal)

    async def at_end(self) -> None:
        """Tell that the session ends; nobody waits long for it."""
        with suppress(TimeoutError):
            async with asyncio.timeout(ENDING_SECONDS):
                await self._hooks.about(HookEvent.SESSION_END, {"reason": "exit"}, AbortSignal())

    def watch(self, bus: MessageBus) -> Callable[[], None]:
        """Tell of each question that waits for the person; return how to stop."""

        def follow(notice: Notice) -> None:
            if not isinstance(notice, ConfirmationRequested) or not self._hooks.settings.of_event(_NOTIFICATION):
                return
            what = visible(notice.confirmation.request.details.description)
            facts = {"message": f"ollm-tui needs your permission: {what}", "notification_type": "permission_prompt"}
            task = asyncio.ensure_future(self._hooks.about(_NOTIFICATION, {**facts}, AbortSignal()))
            self._notifying.add(task)
            task.add_done_callback(self._notifying.discard)

        return bus.subscribe(follow)


_NOTIFICATION = HookEvent.NOTIFICATION
