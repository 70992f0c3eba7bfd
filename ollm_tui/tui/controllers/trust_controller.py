"""Trust in the repository's own configuration: ask for it, and apply the file once it is trusted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

from ollm_tui.core.policy.engine import PolicyEngine
from ollm_tui.core.policy.repository_trust import REPOSITORY_CONFIG, TrustState, TrustStore
from ollm_tui.runtime import Configuration, ConfigurationError, Core, configure, with_approvals_since
from ollm_tui.tui.protocol import PostUpdate, intents, updates
from ollm_tui.tui.values import EntriesChanged, NoteEntry

NOTHING = f"There is no {REPOSITORY_CONFIG} here that can be read: there is nothing to trust."
CHANGED = f"{REPOSITORY_CONFIG} has changed since it was shown: it does not count. /trust shows it anew."
COUNTS = (
    f"{REPOSITORY_CONFIG} counts from now on, its policy and protected files at once, other settings from the next"
    " start. What you approved for this session stays approved where the file does not stand against it."
)


class TrustController:
    """Handler of trust intents; `changed` receives each configuration read again."""

    def __init__(self, core: Core, post: PostUpdate, changed: Callable[[Configuration], None]) -> None:
        self._executor = core.executor
        self._configuration = core.configuration
        self._workspace = core.configuration.workspace.root
        self._outputs = core.outputs.folder
        self._post = post
        self._changed = changed

    def first_notes(self) -> list[NoteEntry]:
        """Return a note about a configuration file that is not trusted."""
        match self._configuration.trust:
            case TrustState.UNTRUSTED:
                how = "is this folder's own config file. It does not count yet"
            case TrustState.CHANGED:
                how = "has changed since you trusted it. It does not count any more"
            case TrustState.NO_FILE | TrustState.TRUSTED:
                return []
        return [NoteEntry("trust", f"{REPOSITORY_CONFIG} {how}: /trust shows it and asks whether it may.")]

    async def handle(self, intent: intents.TrustIntent) -> None:
        """Show the file with the question, or trust it."""
        match intent:
            case intents.AskForTrust():
                await self._ask()
            case intents.TrustConfig(shown):
                await self._trust(shown)
            case _:
                pass

    async def _ask(self) -> None:
        """Show the file and ask; apply it if it is trusted already."""
        try:
            own = await asyncio.to_thread(TrustStore.of_user().check, self._workspace)
        except ValueError as error:
            self._post(updates.ToastUpdate(str(error), failed=True))
            return
        match own.trust:
            case TrustState.NO_FILE:
                self._post(updates.ToastUpdate(NOTHING))
            case TrustState.TRUSTED:
                await self._read_again()
            case TrustState.UNTRUSTED | TrustState.CHANGED:
                self._post(updates.TrustQuestionUpdate(str(REPOSITORY_CONFIG), own.content))

    async def _trust(self, shown: bytes) -> None:
        """Trust the file if it is as shown, and apply it."""
        try:
            state = await asyncio.to_thread(TrustStore.of_user().trust, self._workspace, shown)
        except (OSError, ValueError) as error:
            self._post(updates.ToastUpdate(f"{REPOSITORY_CONFIG} is not trusted: {error}", failed=True))
            return
        match state:
            case TrustState.TRUSTED:
                await self._read_again()
            case TrustState.NO_FILE:
                self._post(updates.ToastUpdate(NOTHING, failed=True))
            case TrustState.CHANGED | TrustState.UNTRUSTED:
                self._post(updates.ToastUpdate(CHANGED, failed=True))

    async def _read_again(self) -> None:
        options = replace(self._configuration.options, workspace=self._workspace)
        try:
            read = await asyncio.to_thread(configure, options)
        except ConfigurationError as error:
            self._post(
                updates.ToastUpdate(f"The policy could not be read anew, the old one holds: {error}", failed=True)
            )
            return
        fresh, start = read.with_readable(self._outputs), self._configuration
        # With an error everything is denied, earlier approvals included.
        valid = fresh.policy_error is None

        def change(now: PolicyEngine) -> PolicyEngine:
            sources = with_approvals_since(start.sources, now.sources, fresh.sources) if valid else fresh.sources
            return PolicyEngine(sources)

        await self._executor.change_policy(change, fresh.workspace if valid else self._executor.workspace)
        self._configuration = fresh
        self._changed(fresh)
        self._report(fresh)

    def _report(self, fresh: Configuration) -> None:
        if fresh.trust is not TrustState.TRUSTED:
            self._post(updates.ToastUpdate(CHANGED, failed=True))
        elif fresh.policy_error is None:
            self._post(updates.ToastUpdate(f"{REPOSITORY_CONFIG} counts from now on."))
            self._post(updates.ConversationUpdate(EntriesChanged((NoteEntry("trust", COUNTS),))))
        else:
            words = f"{REPOSITORY_CONFIG} is trusted, but everything is denied now: {fresh.policy_error}"
            self._post(updates.ToastUpdate(words, failed=True))
