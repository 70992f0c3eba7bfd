"""Tell hooks what happens in the conversation, and what they want of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from ollm_tui.agent.hooks.entries import HookEvent
from ollm_tui.agent.hooks.hooks import Hooks, HookTexts
from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.base.escape import visible
from ollm_tui.core.bus.message_bus import MessageBus
from ollm_tui.core.bus.notices import ConfirmationRequested, Notice

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
