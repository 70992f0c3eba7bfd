"""The repository's own config file: whether it counts, a look at it, and what a person's trust changes at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from ollm_tui.core.policy.engine import PolicyEngine
from ollm_tui.core.policy.repository_trust import REPOSITORY_CONFIG, RepositoryConfig, TrustState, TrustStore
from ollm_tui.core.policy.rules import Mode
from ollm_tui.runtime import Configuration, ConfigurationError, Core, Runtime, configure, with_approvals_since
from ollm_tui.tui import protocol
from ollm_tui.tui.conversation_entries import EntriesChanged, NoteEntry
from ollm_tui.tui.protocol import Tell
from ollm_tui.tui.values import SessionStatus

CIRCLE = (Mode.ASK, Mode.AUTO_EDIT, Mode.PLAN)
"""What F4 goes through; yolo is chosen by name only."""


class StatusController:
    """Knows them as they are now; each change is told whole."""

    def __init__(self, house: Runtime, tell: Tell) -> None:
        self._executor = house.core.executor
        self._tell = tell
        configuration = house.core.configuration
        described = house.agent.provider.describe()
        self.now = SessionStatus(
            model=described.model or described.provider,
            workspace=_short(configuration.workspace.root),
            tokens_limit=described.context_window,
            mode=self._executor.mode.value,
            offline=described.provider == "offline",
            denied_because=configuration.policy_error or "",
        )

    def tell(self) -> None:
        self._tell(protocol.StatusUpdate(self.now))

    def tokens_used(self, count: int) -> None:
        """The model server reported usage; 0 says nothing."""
        self._change(replace(self.now, tokens_used=count or self.now.tokens_used))

    def policy_read(self, fault: str | None) -> None:
        """With a fault everything is denied."""
        self._change(replace(self.now, denied_because=fault or ""))

    def change_mode(self, wanted: str | None) -> None:
        """To the mode of that name, or to the next of CIRCLE."""
        if wanted is None:
            place = CIRCLE.index(self._executor.mode) if self._executor.mode in CIRCLE else -1
            self._executor.mode = CIRCLE[(place + 1) % len(CIRCLE)]
        else:
            self._executor.mode = Mode(wanted)
        self._change(replace(self.now, mode=self._executor.mode.value))

    def _change(self, surroundings: SessionStatus) -> None:
        self.now = surroundings
        self.tell()


def _short(path: Path) -> str:
    """A folder as people call it: `~/src/app`."""
    try:
        return f"~/{path.relative_to(Path.home())}"
    except ValueError:
        return str(path)


NOTHING = f"There is no {REPOSITORY_CONFIG} here that can be read: there is nothing to trust."
SWAPPED = f"{REPOSITORY_CONFIG} has changed since it was shown: it does not count. /trust shows it anew."
COUNTS = (
    f"{REPOSITORY_CONFIG} counts from now on, its policy and protected files at once, other settings from the next"
    " start. What you approved for this session stays approved where the file does not stand against it."
)


class TrustController:
    """Looks at the file and trusts it; `changed` is called with every configuration that is read anew."""

    def __init__(self, core: Core, tell: Tell, changed: Callable[[Configuration], None]) -> None:
        self._executor = core.executor
        self._configuration = core.configuration
        self._workspace = core.configuration.workspace.root
        self._outputs = core.outputs.folder
        self._tell = tell
        self._changed = changed

    def first_notes(self) -> list[NoteEntry]:
        """What a person should know at the start: a file that lies there and does not count."""
        match self._configuration.trust:
            case TrustState.UNTRUSTED:
                how = "is this folder's own config file. It does not count yet"
            case TrustState.CHANGED:
                how = "has changed since you trusted it. It does not count any more"
            case TrustState.NO_FILE | TrustState.TRUSTED:
                return []
        return [NoteEntry("trust", f"{REPOSITORY_CONFIG} {how}: /trust shows it and asks whether it may.")]

    async def look(self) -> None:
        """Have the file shown with the question; where it is trusted already, see that it counts."""
        try:
            own = await asyncio.to_thread(TrustStore.of_user().check, self._workspace)
        except ValueError as error:
            self._tell(protocol.ToastUpdate(str(error), failed=True))
            return
        await self._go_on(own)

    async def _go_on(self, own: RepositoryConfig) -> None:
        match own.trust:
            case TrustState.NO_FILE:
                self._tell(protocol.ToastUpdate(NOTHING))
            case TrustState.TRUSTED:
                await self._read_anew()
            case TrustState.UNTRUSTED | TrustState.CHANGED:
                self._tell(protocol.TrustQuestionUpdate(str(REPOSITORY_CONFIG), own.content))

    async def trust(self, shown: bytes) -> None:
        """Trust the file where it still says what was shown, and let it count at once."""
        try:
            state = await asyncio.to_thread(TrustStore.of_user().trust, self._workspace, shown)
        except (OSError, ValueError) as error:
            self._tell(protocol.ToastUpdate(f"{REPOSITORY_CONFIG} is not trusted: {error}", failed=True))
            return
        match state:
            case TrustState.TRUSTED:
                await self._read_anew()
            case TrustState.NO_FILE:
                self._tell(protocol.ToastUpdate(NOTHING, failed=True))
            case TrustState.CHANGED | TrustState.UNTRUSTED:
                self._tell(protocol.ToastUpdate(SWAPPED, failed=True))

    async def _read_anew(self) -> None:
        options = replace(self._configuration.options, workspace=self._workspace)
        try:
            read = await asyncio.to_thread(configure, options)
        except ConfigurationError as error:
            self._tell(
                protocol.ToastUpdate(f"The policy could not be read anew, the old one holds: {error}", failed=True)
            )
            return
        fresh, start = read.with_readable(self._outputs), self._configuration
        # Under a fault everything is denied: what was approved before it, too.
        keep = fresh.policy_error is None

        def change(now: PolicyEngine) -> PolicyEngine:
            kept = with_approvals_since(start.sources, now.sources, fresh.sources) if keep else fresh.sources
            return PolicyEngine(kept)

        await self._executor.change_policy(change, fresh.workspace if keep else self._executor.workspace)
        self._configuration = fresh
        self._changed(fresh)
        self._say_how_it_stands(fresh)

    def _say_how_it_stands(self, fresh: Configuration) -> None:
        if fresh.trust is not TrustState.TRUSTED:
            self._tell(protocol.ToastUpdate(SWAPPED, failed=True))
        elif fresh.policy_error is None:
            self._tell(protocol.ToastUpdate(f"{REPOSITORY_CONFIG} counts from now on."))
            self._tell(protocol.ConversationUpdate(EntriesChanged((NoteEntry("trust", COUNTS),))))
        else:
            words = f"{REPOSITORY_CONFIG} is trusted, but everything is denied now: {fresh.policy_error}"
            self._tell(protocol.ToastUpdate(words, failed=True))
