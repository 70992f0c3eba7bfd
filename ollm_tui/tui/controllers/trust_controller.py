"""Trust in the repository's own configuration: ask for it, and apply the file once it is trusted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

from ollm_tui.agent.prompt_files import untrusted_files
from ollm_tui.core.base.escape import visible
from ollm_tui.core.policy.engine import PolicyEngine
from ollm_tui.core.policy.instruction_files import trust_instructions
from ollm_tui.core.policy.repository_trust import REPOSITORY_CONFIG, TrustState, TrustStore
from ollm_tui.core.sandbox.engines import Sandbox
from ollm_tui.runtime import Configuration, ConfigurationError, Core, configure, with_approvals_since
from ollm_tui.runtime.runtime import prompt_files
from ollm_tui.tui.protocol import PostUpdate, intents, updates
from ollm_tui.tui.values import EntriesChanged, NoteEntry

NOTHING = f"No {REPOSITORY_CONFIG}, instructions, skills or commands wait here: there is nothing to trust."
MOST_NAMED = 3
CHANGED = "has changed since it was shown: it does not count. /trust shows it anew."
COUNTS = (
    f"{REPOSITORY_CONFIG} counts from now on, its policy and protected files at once, other settings from the next"
    " start. What you approved for this session stays approved where the file does not stand against it."
)


class TrustController:
    """Handler of trust intents; `changed` receives each configuration read again."""

    def __init__(self, core: Core, post: PostUpdate, changed: Callable[[Configuration], None]) -> None:
        self._core = core
        self._executor = core.executor
        self.configuration = core.configuration
        self._workspace = core.configuration.workspace.root
        self._post = post
        self._changed = changed

    def first_notes(self) -> list[NoteEntry]:
        """Return a note about a configuration file that is not trusted."""
        match self.configuration.trust:
            case TrustState.UNTRUSTED:
                how = "is this folder's own config file. It does not count yet"
            case TrustState.CHANGED:
                how = "has changed since you trusted it. It does not count any more"
            case TrustState.NO_FILE | TrustState.TRUSTED:
                return []
        return [NoteEntry("trust", f"{REPOSITORY_CONFIG} {how}: /trust shows it and asks whether it may.")]

    async def post_prompt_files(self) -> None:
        """Offer the commands and skills that count now, and name those that do not."""
        found = await asyncio.to_thread(prompt_files, self._core)
        resources = self._core.mcp.offers.references() if self._core.mcp is not None else ()
        self._post(updates.PromptFilesUpdate(found.files, resources))
        notes = [NoteEntry(f"prompt-file-{at}", words) for at, words in enumerate(found.findings)]
        if found.untrusted:
            names = ", ".join(visible(file.name) for file in found.untrusted[:MOST_NAMED])
            more = f" and {len(found.untrusted) - MOST_NAMED} more" if len(found.untrusted) > MOST_NAMED else ""
            words = f"Skills and commands of this folder do not count yet: {names}{more}. /trust shows them."
            notes.append(NoteEntry("prompt-files", words))
        if notes:
            self._post(updates.ConversationUpdate(EntriesChanged(tuple(notes))))

    async def handle(self, intent: intents.TrustIntent) -> None:
        """Show the files with the question, or trust them."""
        match intent:
            case intents.AskForTrust():
                await self._ask()
            case intents.TrustFiles(shown):
                await self._trust(dict(shown))
            case _:
                pass

    async def _ask(self) -> None:
        """Show what is not trusted yet and ask; apply a config file that is trusted already."""
        store = TrustStore.of_user()
        try:
            own = await asyncio.to_thread(store.check, self._workspace)
            others = await asyncio.to_thread(untrusted_files, self._executor.workspace, own, store)
        except ValueError as error:
            self._post(updates.ToastUpdate(str(error), failed=True))
            return
        files = [(file.name, file.content) for file in others]
        if own.trust in (TrustState.UNTRUSTED, TrustState.CHANGED):
            files.insert(0, (str(REPOSITORY_CONFIG), own.content))
        if files:
            self._post(updates.TrustQuestionUpdate(tuple(files)))
        elif own.trust is TrustState.TRUSTED:
            await self.read_again()
        else:
            self._post(updates.ToastUpdate(NOTHING))

    async def _trust(self, shown: dict[str, bytes]) -> None:
        """Trust each file that is as shown, and apply it."""
        config = shown.pop(str(REPOSITORY_CONFIG), None)
        store = TrustStore.of_user()
        try:
            state = None if config is None else await asyncio.to_thread(store.trust, self._workspace, config)
            changed = await asyncio.to_thread(trust_instructions, self._executor.workspace, store, shown)
        except (OSError, ValueError) as error:
            self._post(updates.ToastUpdate(f"Nothing is trusted: {error}", failed=True))
            return
        for name in changed:
            self._post(updates.ToastUpdate(f"{name} {CHANGED}", failed=True))
        for name in shown.keys() - set(changed):
            words = f"{name} counts from {'the next start' if name == '.mcp.json' else 'your next message'}."
            self._post(updates.ConversationUpdate(EntriesChanged((NoteEntry(f"trust-{name}", words),))))
        await self.post_prompt_files()
        if state is TrustState.TRUSTED:
            await self.read_again()
        elif state is not None:
            self._post(updates.ToastUpdate(f"{REPOSITORY_CONFIG} {CHANGED}", failed=True))

    async def read_again(self, name: str = str(REPOSITORY_CONFIG)) -> None:
        """Let the configuration hold as its files stand now; say of `name` that it counts."""
        options = replace(self.configuration.options, workspace=self._workspace)
        try:
            read = await asyncio.to_thread(configure, options)
        except ConfigurationError as error:
            self._post(
                updates.ToastUpdate(f"The policy could not be read anew, the old one holds: {error}", failed=True)
            )
            return
        fresh, start = read.with_readable(self._executor.workspace.readable_roots), self.configuration
        # With an error everything is denied, earlier approvals included.
        valid = fresh.policy_error is None

        def change(now: PolicyEngine) -> PolicyEngine:
            sources = with_approvals_since(start.sources, now.sources, fresh.sources) if valid else fresh.sources
            return PolicyEngine(sources)

        if valid:
            await self._executor.change_policy(change, fresh.workspace, Sandbox(fresh.sandbox))
        else:
            await self._executor.change_policy(change, self._executor.workspace)
        self._core.use_hooks(fresh.hooks)
        self.configuration = fresh
        self._changed(fresh)
        if name == str(REPOSITORY_CONFIG):
            self._report(fresh)
        elif valid:
            self._post(updates.ToastUpdate(f"{name} counts from now on."))
        else:
            self._post(updates.ToastUpdate(f"Everything is denied now: {fresh.policy_error}", failed=True))

    def _report(self, fresh: Configuration) -> None:
        if fresh.trust is not TrustState.TRUSTED:
            self._post(updates.ToastUpdate(f"{REPOSITORY_CONFIG} {CHANGED}", failed=True))
        elif fresh.policy_error is None:
            self._post(updates.ToastUpdate(f"{REPOSITORY_CONFIG} counts from now on."))
            self._post(updates.ConversationUpdate(EntriesChanged((NoteEntry("trust", COUNTS),))))
        else:
            words = f"{REPOSITORY_CONFIG} is trusted, but everything is denied now: {fresh.policy_error}"
            self._post(updates.ToastUpdate(words, failed=True))
