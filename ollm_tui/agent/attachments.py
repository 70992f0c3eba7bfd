"""What goes to the model beside what the person writes: instructions, recalled notes, references, words of hooks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from ollm_tui.agent.events import AttachedEvent, AttachedImage, CompactedEvent, Event, NoticeEvent
from ollm_tui.agent.hooks.hooks import TurnHooks
from ollm_tui.agent.instructions import Instructions, InstructionsFound, system_prompt
from ollm_tui.agent.prompt_commands import PromptCommands
from ollm_tui.agent.providers import provider as wire
from ollm_tui.agent.recall import MemoryRecall
from ollm_tui.agent.references import ReferenceReader, refers
from ollm_tui.agent.rounds import Rounds
from ollm_tui.agent.stream import EventStream
from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.base.errors import StorageFailed
from ollm_tui.core.base.results import JsonObject
from ollm_tui.core.execution.executor import ToolExecutor


@dataclass(frozen=True)
class Sources:
    """Where it comes from."""

    recall: MemoryRecall | None = None
    """Chooses what goes before the session's first message."""
    instructions: Instructions | None = None
    references: ReferenceReader | None = None
    """Reads what messages refer to; None for one without a window to mind."""
    hooks: TurnHooks | None = None
    commands: PromptCommands | None = None
    """Expands a message that is a command that people keep as a file."""
    join_tools: Callable[[AbortSignal], Awaitable[None]] | None = None
    """Offers tools that have come, between two turns: a request's beginning must stay as it was."""


class Attachments:
    """Adds texts to the history, each told as an event."""

    def __init__(
        self,
        executor: ToolExecutor,
        stream: EventStream,
        rounds: Rounds,
        sources: Sources,
        on_first_message: Callable[[], object] | None,
    ) -> None:
        self._executor = executor
        self._stream = stream
        self._rounds = rounds
        self._hooks = sources.hooks
        self._recall = sources.recall
        self._instructions = sources.instructions
        self._join_tools = sources.join_tools
        self._references = sources.references or ReferenceReader(executor)
        self._on_first_message = on_first_message
        self.unread = ""
        """The newest message, until what it refers to was read."""
        self._instructed = False
        """Whether the system prompt holds the root's instructions; later ones come with a message."""
        self._hooks_told = False
        """Whether hooks heard that the session begins."""
        self._begun = False
        """Whether the first message was sent, before which memory is recalled."""
        if self._instructions is not None:
            stream.subscribe(self._forget_compacted)

    def restart(self) -> None:
        """Begin anew with another conversation."""
        self._begun = any(isinstance(message, wire.UserMessage) for message in self._rounds.history)
        if self._instructions is not None:
            self._instructions.forget()
        self._instructed = self._hooks_told = False

    async def before_turn(self, signal: AbortSignal) -> None:
        """Add what belongs before the turn's first request."""
        if self._join_tools is not None:
            await self._join_tools(signal)
        await self._begin_session(signal)
        await self._instruct(signal)
        await self.read_references(signal)

    async def read_references(self, signal: AbortSignal) -> None:
        """Attach what the newest message refers to, once."""
        text, self.unread = self.unread, ""
        if refers(text):
            await self._references.read(text, signal, self.attach, self._tell, self._rounds.takes_images)

    async def instruct_about(self, touched: Sequence[JsonObject], signal: AbortSignal) -> None:
        """Attach instructions on the way down to what calls touched, by their arguments."""
        if self._instructions is not None:
            found = await signal.in_thread(self._instructions.on_the_way_to, touched)
            for name, text in self._told(found).texts:
                self.attach(name, text)

    def attach(self, name: str, text: str, image: AttachedImage | None = None) -> None:
        """Add a text that the person did not write, before their newest message where that is the last."""
        place = "message" if isinstance(self._rounds.history[-1], wire.UserMessage) else "conversation"
        event = self._stream.publish(AttachedEvent(name=name, text=text, place=place, image=image))
        self._rounds.attach(text, event.id, None if image is None else image.for_request)

    async def _begin_session(self, signal: AbortSignal) -> None:
        """Do once, before the first request, what has to be done, and recall notes from memory."""
        if self._hooks is not None and not self._hooks_told:
            self._hooks_told = True
            for context in await self._hooks.at_start(resumed=self._begun, signal=signal):
                self.attach("hook", context)
        if self._begun:
            return
        self._begun = True
        try:
            if self._on_first_message is not None:
                await signal.in_thread(self._on_first_message)
        except StorageFailed as failure:
            self._tell(f"The finished todo list stays: {failure.message}")
        try:
            recalled = await self._recall.notes(signal) if self._recall is not None else None
        except StorageFailed as failure:
            self._tell(f"Nothing from memory goes along: {failure.message}")
            return
        history = self._rounds.history
        first = next((at for at, message in enumerate(history) if isinstance(message, wire.UserMessage)), None)
        if recalled is not None and first is not None:
            message = history[first]
            assert isinstance(message, wire.UserMessage), "it was chosen for being one"
            history[first] = message.behind(recalled.text)
            self._stream.publish(recalled)

    async def _instruct(self, signal: AbortSignal) -> None:
        """Send the root's instructions: with the system prompt at first, later with the newest message."""
        if self._instructions is None:
            return
        found = self._told(await signal.in_thread(self._instructions.of_root))
        if self._instructed:
            for name, text in found.texts:
                self.attach(name, text)
            return
        self._instructed = True
        whole = "\n\n".join([system_prompt(self._executor.workspace), *(text for _, text in found.texts)])
        self._rounds.history[0] = wire.SystemMessage(whole)
        for name, text in found.texts:
            self._stream.publish(AttachedEvent(name=name, text=text, place="system"))

    def _forget_compacted(self, event: Event) -> None:
        if isinstance(event, CompactedEvent) and not event.task and self._instructions is not None:
            self._instructions.forget_nested()

    def _told(self, found: InstructionsFound) -> InstructionsFound:
        for words in found.notices:
            self._tell(words)
        return found

    def _tell(self, words: str) -> None:
        self._stream.publish(NoticeEvent(text=words))
