"""`ollm-tui run PROMPT|-`: one turn without a screen; confirmations are denied at once."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

from pydantic import JsonValue

from ollm_tui.agent.events import (
    AssistantMessageEvent,
    AttachedEvent,
    ConfirmationSettledEvent,
    ErrorEvent,
    Event,
    MemoryRecalledEvent,
    ModelLoadingEvent,
    NoticeEvent,
    TextDeltaEvent,
    ToolCallEvent,
    ToolResultEvent,
    TurnStatus,
    UsageEvent,
    as_line,
)
from ollm_tui.agent.loop import Agent
from ollm_tui.cli.command_line import (
    ExitCode,
    UsageError,
    command_parser,
    discard_stdout,
    ending_signals,
    options_of,
    parse,
    provider_parser,
    session_parser,
)
from ollm_tui.cli.streams import given_or_stdin, print_json, say, valid_configuration
from ollm_tui.core.base.escape import visible
from ollm_tui.core.base.results import JsonObject
from ollm_tui.options import Options
from ollm_tui.runtime import Attendance, ConfigurationError, Runtime, open_runtime

EXIT_CODES = {
    TurnStatus.COMPLETED: ExitCode.DONE,
    TurnStatus.FAILED: ExitCode.FAILED,
    TurnStatus.INTERRUPTED: ExitCode.INTERRUPTED,
}


def run_command(argv: list[str]) -> int:
    """Run one turn."""
    parser = command_parser("run", "One turn without a screen.", provider_parser(), session_parser())
    parser.add_argument("prompt", metavar="PROMPT", help="what to do; - reads it from stdin")
    parser.add_argument("--output", choices=("text", "json", "jsonl"), default="text", help="what stdout carries")
    parser.add_argument(
        "--max-rounds", metavar="N", type=_positive, help="requests to the model at most (agent.max_rounds)"
    )
    parser.add_argument(
        "--ask",
        choices=("deny", "socket", "stdio"),
        default="deny",
        help="what asks is denied, waits for `ollm-tui attach`, or is asked as JSON lines on stdout and stdin",
    )
    given = parse(parser, argv)
    if given.ask == "stdio" and (given.prompt == "-" or given.output != "text"):
        raise UsageError("with --ask stdio the prompt is an argument, and stdout carries the questions")
    prompt = given_or_stdin(given.prompt).strip()
    if not prompt:
        raise UsageError("the prompt is empty")
    output = "nothing" if given.ask == "stdio" else given.output
    return asyncio.run(_run(options_of(given), prompt, output, given.ask))


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError("not positive")
    return number


async def _run(options: Options, prompt: str, output: str, ask: str) -> int:
    attendance = Attendance.NOBODY if ask == "deny" else Attendance.REMOTE
    try:
        configuration = valid_configuration(options)
        async with open_runtime(options, attendance, configuration=configuration, report=say) as runtime:
            for notice in (*runtime.notices, *runtime.session.now.notices):
                say(notice)
            if (broken_off := runtime.broken_off) is not None:
                hint = f" `--resume {broken_off.session_id}` goes on with it." if broken_off.session_id else ""
                say(f"{broken_off.text}{hint}")
            summary = _Summary()
            runtime.stream.subscribe(summary.take)
            runtime.stream.subscribe(_until_closed(_WRITERS[output](), runtime.agent))
            runtime.begin()
            async with _asking(runtime, ask) as told:
                status = await _turn(runtime, prompt)
                told({"type": "end", "status": status.value})
            if output == "json":
                print_json(summary.as_json(runtime.session_id, status))
    except ConfigurationError as error:
        raise UsageError(str(error)) from None
    return EXIT_CODES[status]


@asynccontextmanager
async def _asking(runtime: Runtime, ask: str) -> AsyncGenerator[Callable[[JsonObject], None]]:
    """Let a person answer from elsewhere as long as the block; yields how to tell them something."""
    if ask == "deny":
        yield lambda _: None
        return
    from ollm_tui.cli.questions import QuestionServer, on_socket, on_stdio

    root = str(runtime.core.configuration.workspace.root)
    questions = QuestionServer(runtime.core.bus, {"session": runtime.session_id, "workspace": root})

    def told(event: Event) -> None:
        if isinstance(event, AssistantMessageEvent) and event.task is None and event.text:
            questions.tell({"type": "text", "text": event.text})

    runtime.stream.subscribe(told)
    async with AsyncExitStack() as stack:
        if ask == "socket":
            try:
                await stack.enter_async_context(on_socket(questions, runtime.session_id))
            except OSError as error:
                raise UsageError(f"nobody could attach: {error}") from None
            say(f"What asks waits for: ollm-tui attach {runtime.session_id}")
        else:
            ended = partial(runtime.agent.interrupt, "nobody can answer any more")
            await stack.enter_async_context(on_stdio(questions, ended))
        stack.push_async_callback(questions.aclose)
        yield questions.tell


async def _turn(runtime: Runtime, prompt: str) -> TurnStatus:
    """Run the turn; the first ctrl+c or termination interrupts it and keeps what was done."""
    loop = asyncio.get_running_loop()
    reasons = ending_signals()
    for number, why in reasons.items():
        loop.add_signal_handler(number, runtime.agent.interrupt, why)
    try:
        return await runtime.agent.run_turn(prompt)
    finally:
        for number in reasons:
            loop.remove_signal_handler(number)


def _until_closed(read: Callable[[Event], None], agent: Agent) -> Callable[[Event], None]:
    """Interrupt the turn once stdout is closed, as other programs do."""

    def guarded(event: Event) -> None:
        try:
            read(event)
        except BrokenPipeError:
            discard_stdout()
            agent.interrupt("nobody reads the output any more")

    return guarded


def _as_text() -> Callable[[Event], None]:
    """Print the answer on stdout as it comes, and what is done for it on stderr."""
    at_line_start = True

    def read(event: Event) -> None:
        nonlocal at_line_start
        match event:
            case TextDeltaEvent(text=text):
                sys.stdout.write(text)
                sys.stdout.flush()
                at_line_start = text.endswith("\n")
            case AssistantMessageEvent(task=None):
                if not at_line_start:
                    sys.stdout.write("\n")
                    sys.stdout.flush()
                    at_line_start = True
            case ToolCallEvent(name=name):
                say(f"{'  ' if event.task else ''}> {visible(name)}")
            case ToolResultEvent(result=result):
                say(f"  {visible(result.error.message if result.error else result.return_display.split(chr(10))[0])}")
            case ConfirmationSettledEvent(outcome=outcome, by=by):
                say(f"  {outcome} by {by}")
            case MemoryRecalledEvent() | AttachedEvent():
                say(event.summary)
            case ModelLoadingEvent(model=model, loaded=False):
                say(f"loading {visible(model)} ...")
            case NoticeEvent(text=text):
                say(visible(text))
            case ErrorEvent(error=error):
                say(f"{error.type}: {visible(error.message)}")
            case _:
                pass

    return read


def _as_jsonl() -> Callable[[Event], None]:
    def read(event: Event) -> None:
        sys.stdout.buffer.write((as_line(event) + "\n").encode())  # JSON is UTF-8 whatever the locale says
        sys.stdout.buffer.flush()

    return read


def _as_nothing() -> Callable[[Event], None]:
    return lambda event: None


_WRITERS: dict[str, Callable[[], Callable[[Event], None]]] = {
    "text": _as_text,
    "json": _as_nothing,
    "nothing": _as_nothing,
    "jsonl": _as_jsonl,
}


class _Summary:
    """What `--output json` prints at the end."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._calls: dict[str, JsonObject] = {}
        self._usage: JsonObject = {}
        self._error: JsonObject | None = None

    def take(self, event: Event) -> None:
        match event:
            case AssistantMessageEvent(text=text, task=None) if text:
                self._texts.append(text)
            case ToolCallEvent():
                self._calls[event.call_id] = {
                    "id": event.call_id,
                    "name": event.name,
                    "arguments": event.arguments,
                }
                if event.task is not None:
                    self._calls[event.call_id]["task"] = event.task
            case ToolResultEvent():
                # a resumed session's first results end calls of the turn before
                self._calls.setdefault(event.call_id, {"id": event.call_id})["result"] = event.result.model_dump(
                    mode="json", by_alias=True, exclude_none=True
                )
            case UsageEvent():
                for key, count in (
                    ("promptTokens", event.prompt_tokens),
                    ("completionTokens", event.completion_tokens),
                ):
                    before = self._usage.get(key)
                    if count is not None:
                        self._usage[key] = count + (before if isinstance(before, int) else 0)
            case ErrorEvent():
                self._error = event.error.model_dump(mode="json", by_alias=True)
            case _:
                pass

    def as_json(self, session_id: str, status: TurnStatus) -> JsonObject:
        calls: list[JsonValue] = [*self._calls.values()]
        summary: JsonObject = {
            "sessionId": session_id,
            "status": status.value,
            "text": "\n\n".join(self._texts),
            "toolCalls": calls,
            "usage": self._usage,
        }
        return summary if self._error is None else {**summary, "error": self._error}
