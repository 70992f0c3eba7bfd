"""What the status line says beside the state, the model's speed included."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

from ollm_tui.agent.events import AssistantMessageEvent, Event, ReasoningDeltaEvent, TextDeltaEvent, UsageEvent
from ollm_tui.core.base.abort import AbortController
from ollm_tui.core.base.app_dirs import short_path
from ollm_tui.core.base.clock import Clock
from ollm_tui.core.base.errors import ToolFailure
from ollm_tui.core.policy.rules import Mode
from ollm_tui.core.sandbox.engines import look_works
from ollm_tui.core.search.repository import Repository
from ollm_tui.core.tools.context import ToolContext
from ollm_tui.core.tools.git_reading import GIT_STATUS, GitStatusInvocation
from ollm_tui.runtime import Runtime
from ollm_tui.tui.protocol import PostUpdate, updates
from ollm_tui.tui.values import SessionStatus

REPOSITORY_SECONDS = 2.0
"""Least time between two looks at the repository."""

PAUSES = 10.0
"""Pause after a look at the repository, in times that it took."""

LEAST_SECONDS = 0.2
"""Shortest time that is measured: a faster reply was sent whole."""

MODE_CYCLE = (Mode.ASK, Mode.AUTO_EDIT, Mode.PLAN)
"""Modes that F4 cycles through; yolo is chosen by name only."""


class StatusController:
    """Status of the session, posted whole after each change."""

    def __init__(self, runtime: Runtime, post: PostUpdate, clock: Clock) -> None:
        self._runtime = runtime
        self._executor = runtime.core.executor
        self._post = post
        configuration = runtime.core.configuration
        described = runtime.agent.provider.describe()
        runtime.log.subscribe(lambda _: self._change(replace(self.now, recorded=not runtime.log.error)))
        self.now = SessionStatus(
            model=described.model or described.provider,
            workspace=short_path(configuration.workspace.root),
            tokens_limit=described.context_window,
            mode=self._executor.mode.value,
            offline=described.provider == "offline",
            denied_because=str(configuration.policy_error or ""),
            recorded=not runtime.log.error,
            broken_off=runtime.broken_off.session_id if runtime.broken_off is not None else "",
        )
        self._log = runtime.log
        self._rate = AnswerRate(clock.monotonic)
        self.rates: dict[str, float] = {}
        """Tokens a second of the last answer, by model."""
        self._clock = clock
        self._next_look = float("-inf")
        self._looking = self._wanted = False

    def post(self) -> None:
        """Post the status as it is now."""
        self._post(updates.StatusUpdate(self.now))

    def follow(self, event: Event) -> None:
        """Show what an event changes: the window's use, the model's speed."""
        self._rate.follow(event)
        if isinstance(event, UsageEvent) and event.task is None:
            self._tokens_used(event)

    def _tokens_used(self, event: UsageEvent) -> None:
        model, rate = self._runtime.agent.provider.describe().model or self.now.model, self._rate.of(event)
        if rate is not None:
            self.rates[model] = rate
        used = event.context_used or (event.prompt_tokens or 0) + (event.completion_tokens or 0)
        self._change(
            replace(
                self.now,
                model=model,
                tokens_used=used or self.now.tokens_used,
                tokens_limit=event.context_limit or self.now.tokens_limit,
                tokens_estimated=event.estimated,
                tokens_per_second=rate or self.now.tokens_per_second,
            )
        )

    def session_switched(self) -> None:
        """Forget what was measured in the session before."""
        self._change(
            replace(self.now, tokens_used=None, tokens_per_second=None, recorded=not self._log.error, broken_off="")
        )

    def offer_nothing(self) -> None:
        """Take back the offer to go on with the session that broke off."""
        if self.now.broken_off:
            self._change(replace(self.now, broken_off=""))

    def model_switched(self) -> None:
        """Name the model that is in use, of which nothing was used yet."""
        described = self._runtime.agent.provider.describe()
        self._change(
            replace(
                self.now,
                model=described.model or described.provider,
                tokens_used=None,
                tokens_per_second=None,
                tokens_limit=described.context_window,
                offline=described.provider == "offline",
            )
        )

    def policy_read(self, error: str | None) -> None:
        """Set the state of the policy; with an error everything is denied."""
        self._change(replace(self.now, denied_because=error or ""))

    def mode_read(self) -> None:
        """Show the mode where a call changed it: an approved plan ends plan mode."""
        if self.now.mode != self._executor.mode.value:
            self._change(replace(self.now, mode=self._executor.mode.value))

    def change_mode(self, name: str | None) -> None:
        """Change to the mode of that name, or to the next."""
        if name is None:
            at = MODE_CYCLE.index(self._executor.mode) if self._executor.mode in MODE_CYCLE else -1
            self._executor.mode = MODE_CYCLE[(at + 1) % len(MODE_CYCLE)]
        else:
            self._executor.mode = Mode(name)
        if self._executor.mode is Mode.PLAN:
            self._executor.plan = None  # another one is made
        self._change(replace(self.now, mode=self._executor.mode.value))

    async def read_repository(self) -> None:
        """Look at the repository's branch and whether anything is changed: soon, and never twice at once."""
        self._wanted = True
        if self._looking:
            return
        self._looking = True
        try:
            while self._wanted:
                await asyncio.sleep(max(0.0, self._next_look - self._clock.monotonic()))
                self._wanted = False
                begun = self._clock.monotonic()
                branch = await self._branch()
                ended = self._clock.monotonic()
                self._next_look = ended + max(REPOSITORY_SECONDS, PAUSES * (ended - begun))
                if branch != self.now.branch:
                    self._change(replace(self.now, branch=branch))
        finally:
            self._looking = False

    async def _branch(self) -> str:
        """Return the branch, with a star where something is changed.

        It is empty without a branch, or where git cannot be confined.
        """
        core = self._runtime.core
        workspace = core.configuration.workspace
        around = await asyncio.to_thread(Repository.around, f"{workspace.root}/".encode())
        if around is None or not await asyncio.to_thread(look_works):
            return ""
        call = GIT_STATUS.create_invocation({}, ToolContext(bus=core.bus, workspace=workspace))
        assert isinstance(call, GitStatusInvocation)
        try:
            status = await call.status(AbortController().signal)
        except ToolFailure:
            return ""
        changed = status.staged or status.unstaged or status.conflicts or status.untracked
        return f"{status.branch or (status.commit or '')[:7]}{'*' if changed else ''}"

    def _change(self, status: SessionStatus) -> None:
        self.now = status
        self.post()


class AnswerRate:
    """Tokens of the session's own replies over the time each took."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._began: float | None = None
        self._seconds = 0.0

    def follow(self, event: Event) -> None:
        """Take the time of an event of the stream."""
        match event:
            case TextDeltaEvent(task=None) | ReasoningDeltaEvent(task=None):
                if self._began is None:
                    self._began = self._now()
            case AssistantMessageEvent(task=None):
                self._seconds = 0.0 if self._began is None else self._now() - self._began
                self._began = None
            case _:
                pass

    def of(self, usage: UsageEvent) -> float | None:
        """Return a reply's tokens per second; None where they are not known."""
        tokens, seconds, self._seconds = usage.completion_tokens, self._seconds, 0.0
        return tokens / seconds if tokens and seconds >= LEAST_SECONDS else None
