"""`ollm-tui --plain`: the agent line by line, states and questions in words, for screen readers and plain terminals."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from contextlib import suppress
from typing import Protocol

from ollm_tui.agent.events import (
    AssistantMessageEvent,
    CompactedEvent,
    ConfirmationRequestedEvent,
    ConfirmationSettledEvent,
    ContextDroppedEvent,
    ErrorEvent,
    Event,
    ModelLoadingEvent,
    NoticeEvent,
    TextDeltaEvent,
    ToolCallEvent,
    ToolResultEvent,
)
from ollm_tui.agent.providers.provider import ProviderError
from ollm_tui.cli.command_line import ExitCode, UsageError, ending_signals
from ollm_tui.cli.plain_commands import PlainCommands
from ollm_tui.cli.streams import valid_configuration
from ollm_tui.core.base.escape import visible, visible_block
from ollm_tui.core.base.log_file import open_log
from ollm_tui.core.bus.confirmation import ConfirmationResponse
from ollm_tui.core.bus.notices import Confirmation
from ollm_tui.core.bus.states import Risk
from ollm_tui.options import Options
from ollm_tui.runtime import Attendance, ConfigurationError, Runtime, open_runtime
from ollm_tui.runtime.models import find_model
from ollm_tui.tui.controllers.conversation_controller import summary_of
from ollm_tui.tui.decisions import QUIET_SECONDS, ConfirmationCase
from ollm_tui.tui.entry_texts import result_words
from ollm_tui.tui.screens.confirmation_text import head_layout
from ollm_tui.tui.widgets.tool_call_view import preview_lines

_COLUMNS = 100
_LEAVE = ("/quit", "/exit")


def run_plain(options: Options) -> int:
    """Talk with the agent until the person leaves; return the exit code."""
    open_log()
    try:
        return asyncio.run(_converse(options))
    except ConfigurationError as error:
        raise UsageError(str(error)) from None


async def _converse(options: Options) -> int:
    lines = PersonLines()
    configuration = valid_configuration(options)
    async with open_runtime(options, Attendance.PERSON, configuration=configuration, report=_print) as runtime:
        greeting = runtime.agent.provider.describe().greeting
        for notice in (greeting, *runtime.notices, *runtime.session.now.notices, *await _about_model(runtime)):
            if notice:
                _print(visible_block(notice))
        described = runtime.agent.provider.describe()
        workspace, mode = runtime.core.configuration.workspace.root, runtime.core.executor.mode.value
        model = visible(described.model or described.provider)
        _print(f"Model: {model}. Folder: {visible(str(workspace))}. Policy: {mode}.")
        _print("Type a message and Enter. /help lists the commands, /quit leaves.")
        talk = _Talk(runtime, lines)
        for number, why in ending_signals().items():
            if number is not signal.SIGINT:
                asyncio.get_running_loop().add_signal_handler(number, talk.leave, why)
        runtime.begin()
        await talk.commands.begin()
        text: str | None = options.prompt or ""
        while text is not None and text.strip() not in _LEAVE:
            if text.strip():
                await talk.take(text)
            _print("> ", end="")
            text = await lines.next()
    return ExitCode.DONE


async def _about_model(runtime: Runtime) -> list[str]:
    try:
        return await find_model(runtime.agent.provider)
    except ProviderError as error:
        return [str(error)]


class PersonLines:
    """Whole lines of the terminal, each with the time it came."""

    def __init__(self, *, only_answers: bool = False) -> None:
        """With `only_answers` nothing typed is a message, and the end of the input leaves a question open."""
        self.only_answers = only_answers
        self.closed = asyncio.Event()
        self._lines: asyncio.Queue[tuple[float, str | None]] = asyncio.Queue()
        self._early: list[str] = []
        """Typed before a question that was asked meanwhile: messages, never answers."""
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(sys.stdin.fileno(), self._read)

    def _read(self) -> None:
        try:
            data = os.read(sys.stdin.fileno(), 65_536)  # a terminal gives a line at a time
        except OSError:  # the terminal is gone
            data = b""
        if data:
            self._lines.put_nowait((time.monotonic(), data.decode("utf-8", "replace").rstrip("\n")))
        else:
            self.close()

    def close(self) -> None:
        """Take nothing more."""
        self.closed.set()
        self._loop.remove_reader(sys.stdin.fileno())
        self._lines.put_nowait((time.monotonic(), None))

    async def next(self) -> str | None:
        """Return the next message; None at the end of the input."""
        return self._early.pop(0) if self._early else (await self._lines.get())[1]

    def set_earlier_aside(self) -> None:
        """Keep what was typed until now for messages: it answers nothing."""
        while not self._lines.empty():
            _, text = self._lines.get_nowait()
            if text is not None and self.only_answers:
                _print(f"Typed before the question, so no answer to it: {visible(text)}")
            elif text is not None:
                self._early.append(text)
                _print(f"Typed before the question, so kept as a message: {visible(text)}")
        if self.closed.is_set():
            self._lines.put_nowait((time.monotonic(), None))

    async def answer(self, asked_at: float) -> str | None:
        """Return the next line that a person can have typed after reading; None at the end of the input."""
        while True:
            came_at, text = await self._lines.get()
            if text is None:
                self._lines.put_nowait((came_at, None))  # whoever reads next comes to the end as well
                return None
            if came_at - asked_at >= QUIET_SECONDS:
                return text
            _print(f"Too soon to be an answer: {visible(text)}. Type it again.")


class _Talk:
    """One turn after the other, and the questions that come up in it."""

    def __init__(self, runtime: Runtime, lines: PersonLines) -> None:
        self._runtime = runtime
        self._lines = lines
        self._questions: asyncio.Queue[str] = asyncio.Queue()
        self._at_line_start = True
        self._tools: dict[str, str] = {}
        self.commands = PlainCommands(runtime, self._say, self._confirm)
        runtime.stream.subscribe(self._tell)

    async def take(self, text: str) -> None:
        """Carry out a command, or answer a message; ctrl+c ends either."""
        loop, agent = asyncio.get_running_loop(), self._runtime.agent
        work = asyncio.ensure_future(self._carry_out(text))

        def stop() -> None:
            if not agent.interrupt("ctrl+c"):
                work.cancel()

        loop.add_signal_handler(signal.SIGINT, stop)
        try:
            while not work.done():
                question = asyncio.ensure_future(self._questions.get())
                await asyncio.wait((work, question), return_when=asyncio.FIRST_COMPLETED)
                if question.done():
                    await ask_person(self._runtime.core.bus, self._lines, question.result())
                else:
                    question.cancel()
            if work.cancelled():
                self._say("Stopped.")
            else:
                work.result()
        finally:
            loop.remove_signal_handler(signal.SIGINT)

    async def _carry_out(self, text: str) -> None:
        if not await self.commands.run(text.strip()):
            status = await self._runtime.agent.run_turn(text)
            self._say(f"The turn is {status.value}.")

    async def _confirm(self, words: str) -> bool:
        """Ask for a whole word that is typed after the question; the end of the input means no."""
        self._say(f"{words} Type yes or no; then Enter.")
        self._lines.set_earlier_aside()
        asked_at = time.monotonic()
        while (answer := await self._lines.answer(asked_at)) is not None:
            word = answer.strip().lower()
            if word in ("yes", "no"):
                return word == "yes"
            self._say("That is no answer. Type yes or no.")
        return False

    def leave(self, why: str) -> None:
        """End the turn, and then the conversation."""
        self._lines.close()
        self._runtime.agent.interrupt(why)

    def _tell(self, event: Event) -> None:
        """Say in words what happens."""
        words: str | None
        match event:
            case TextDeltaEvent(text=text):
                _print(visible_block(text), end="")
                self._at_line_start = text.endswith("\n")
                return
            case AssistantMessageEvent(task=None, text=text):
                self.commands.last_answer = text or self.commands.last_answer
                words = None
            case CompactedEvent(before=before, after=after):
                words = f"Earlier messages were summed up: {before:,} tokens became {after:,}."
            case ContextDroppedEvent(name=name, tokens=tokens):
                words = f"Left out of the context: {visible(name)}, about {tokens:,} tokens."
            case ToolCallEvent(name=name, arguments=arguments):
                self._tools[event.call_id] = name
                words = f"Call: {visible(name)} {visible(summary_of(arguments))}"
            case ToolResultEvent(result=result):
                tool = self._tools.pop(event.call_id, "")
                ended = "" if result.exit_code is None else f"exit code {result.exit_code}"
                facts = filter(None, (tool, result_words(tool, result), ended))
                words = f"{'Failed' if result.error else 'Done'}: {visible(', '.join(facts))}"
            case ConfirmationRequestedEvent(request=request):
                self._questions.put_nowait(request.id)
                return
            case ConfirmationSettledEvent(outcome=outcome, by=by):
                words = f"Answer: {outcome} by {visible(by)}"
            case ModelLoadingEvent(model=model, loaded=False):
                words = f"Loading {visible(model)}."
            case NoticeEvent(text=text):
                words = f"Note: {visible_block(text)}"
            case ErrorEvent(error=error):
                words = f"Error: {error.type}: {visible(error.message)}"
            case _:
                return
        self._say(words)

    def _say(self, words: str | None) -> None:
        """Print a line of its own; None ends the line of an answer."""
        if not self._at_line_start:
            _print("")
        self._at_line_start = True
        if words is not None:
            _print(words)


class Questions(Protocol):
    """The questions that a person is asked: of this process, or of another one."""

    def find(self, request_id: str) -> Confirmation | None:
        """Return an open question; None where it is settled."""
        ...

    def respond_to_confirmation(self, response: ConfirmationResponse) -> object:
        """Answer it."""
        ...


async def ask_person(questions: Questions, lines: PersonLines, request_id: str) -> None:
    """Put a question until it is answered by a whole word, or settled by something else."""
    confirmation = questions.find(request_id)
    if confirmation is None or not confirmation.pending:
        return
    _show(confirmation)
    lines.set_earlier_aside()
    asked_at, twice = time.monotonic(), confirmation.details.risk is Risk.HIGH
    while (open_now := questions.find(request_id)) is not None and open_now.pending:
        answer = asyncio.ensure_future(lines.answer(asked_at))
        while not answer.done() and (now := questions.find(request_id)) is not None and now.pending:
            await asyncio.wait((answer,), timeout=0.2)
        if not answer.done():
            answer.cancel()
            return
        text = answer.result()
        if text is None and lines.only_answers:
            return  # whoever leaves decides nothing
        word, _, reason = ("no" if text is None else text.strip()).partition(" ")
        if word.lower() == "no":
            questions.respond_to_confirmation(
                ConfirmationResponse(id=request_id, approved=False, reason=reason or None)
            )
        elif word.lower() == "yes" and not reason and twice:
            twice, asked_at = False, time.monotonic()
            _print("The risk is high: type yes once more to approve.")
        elif word.lower() == "yes" and not reason:
            questions.respond_to_confirmation(ConfirmationResponse(id=request_id, approved=True))
        else:
            _print("That is no answer. Type yes, no, or no and a reason.")


def _show(confirmation: Confirmation) -> None:
    details = confirmation.details
    _print(f"QUESTION {confirmation.ordinal}: {visible(details.tool_name)}, risk {details.risk.value}")
    case = ConfirmationCase(confirmation)
    head = head_layout(case, _COLUMNS, _COLUMNS)
    for row in (*head.shown, *head.left_out):
        _print(row.text.rstrip())
    for row in preview_lines(details.preview) if details.preview is not None else ():
        _print(f"  {row.text.rstrip()}")
    _print("Type yes to approve once, no to deny, or no and a reason; then Enter.")


def _print(text: str, end: str = "\n") -> None:
    with suppress(OSError):  # the terminal itself may be what is gone
        print(text, end=end, flush=True)
