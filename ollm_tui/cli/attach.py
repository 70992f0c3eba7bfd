"""`ollm-tui attach [ID]` and `attach -- COMMAND`: answer the questions of a run that waits for a person."""

from __future__ import annotations

import asyncio
import shlex
from dataclasses import dataclass, field

from ollm_tui.cli.command_line import ExitCode, UsageError, command_parser, ending_signals, parse
from ollm_tui.cli.plain import PersonLines, ask_person
from ollm_tui.cli.streams import print_json, say
from ollm_tui.core.base.escape import visible, visible_block
from ollm_tui.core.base.results import JsonObject
from ollm_tui.core.bus.confirmation import ConfirmationRequest, ConfirmationResponse
from ollm_tui.core.bus.notices import Confirmation
from ollm_tui.runtime.session_links import HELLO_SECONDS, SOCKETS, SessionLink, linked, sockets_folder, started


def run_command(argv: list[str]) -> int:
    """List the runs that wait, or answer the questions of one."""
    parser = command_parser("attach", "Answer the questions of a run that waits for a person.")
    parser.add_argument("--list", action="store_true", help="each run that waits as one JSON object")
    parser.add_argument("target", nargs="*", metavar="ID", help="the beginning of a session's id; or -- and a command")
    own, _, command = _split(argv)
    given = parse(parser, own)
    if len(given.target) > 1:
        raise UsageError("name one session; a command stands after --")
    try:
        return asyncio.run(_attach(given.target[0] if given.target else "", command, only_list=given.list))
    except PermissionError as error:
        raise UsageError(str(error)) from None


def _split(argv: list[str]) -> tuple[list[str], str, list[str]]:
    if "--" not in argv:
        return argv, "", []
    at = argv.index("--")
    return argv[:at], "--", argv[at + 1 :]


async def _attach(wanted: str, command: list[str], *, only_list: bool) -> int:
    if command:
        try:
            async with started(command) as link:
                return await _converse(link)
        except OSError as error:
            raise UsageError(f"{shlex.join(command)} cannot be started: {error.strerror}") from None
    waiting = await _waiting_runs()
    if only_list:
        for name, about in waiting.items():
            print_json({"session": name, **about})
        return ExitCode.DONE
    found = [name for name in waiting if name.startswith(wanted)]
    if len(found) != 1:
        there = "".join(f"\n  {name}  {visible(str(about.get('workspace', '')))}" for name, about in waiting.items())
        if not waiting:
            raise UsageError("no run waits for a person. Start one with: ollm-tui run PROMPT --ask socket")
        raise UsageError(f"{'several runs wait' if found else 'no such run waits'}; name one:{there}")
    async with linked(sockets_folder() / f"{found[0]}.sock") as link:
        return await _converse(link)


async def _waiting_runs() -> dict[str, JsonObject]:
    """Return each run that answers, by its session; the socket of one that was killed is removed."""
    runs: dict[str, JsonObject] = {}
    for path in sorted(sockets_folder().glob(SOCKETS)):
        try:
            async with linked(path) as link, asyncio.timeout(HELLO_SECONDS):
                runs[path.stem] = {key: value for key, value in (await link.next() or {}).items() if key == "workspace"}
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)
        except (OSError, TimeoutError) as error:
            say(f"{path.stem} does not answer: {error or 'no hello'}")
    return runs


@dataclass
class _Questions:
    """What is known of the questions of a session; an answer is sent, and settled there."""

    link: SessionLink
    open: dict[str, Confirmation] = field(default_factory=dict[str, Confirmation])

    def find(self, request_id: str) -> Confirmation | None:
        """Return a question that is open as far as this side knows."""
        return self.open.get(request_id)

    def respond_to_confirmation(self, response: ConfirmationResponse) -> None:
        """Send an answer."""
        self.open.pop(response.id, None)
        self.link.answer(response)


async def _converse(link: SessionLink) -> int:
    """Put each question to the person until the run ends or they leave."""
    try:
        lines = PersonLines(only_answers=True)
    except PermissionError:
        raise UsageError("answers come from a terminal or a pipe, and stdin is neither") from None
    for number in ending_signals():
        asyncio.get_running_loop().add_signal_handler(number, lines.close)
    link.greet()
    known = _Questions(link)
    questions: asyncio.Queue[str | None] = asyncio.Queue()
    following = asyncio.ensure_future(_follow(known, questions))
    leaving = asyncio.ensure_future(lines.closed.wait())
    leaving.add_done_callback(lambda _: questions.put_nowait(None))
    try:
        while (request_id := await questions.get()) is not None and not lines.closed.is_set():
            await ask_person(known, lines, request_id)
        if lines.closed.is_set():
            say("You have left; what is open stays open.")
            return ExitCode.DONE
        return await following
    finally:
        following.cancel()
        leaving.cancel()


async def _follow(known: _Questions, questions: asyncio.Queue[str | None]) -> int:
    """Take what the run says; return the exit code once it has ended."""
    code: int = ExitCode.FAILED
    reason = "The link is lost; what is open stays open."
    while (frame := await known.link.next()) is not None:
        match frame:
            case {"type": "question", "ordinal": int(ordinal), "request": dict(request)}:
                confirmation = Confirmation(ConfirmationRequest.model_validate(request), ordinal)
                known.open[confirmation.id] = confirmation
                questions.put_nowait(confirmation.id)
            case {"type": "settled", "id": str(request_id), "outcome": str(outcome)}:
                known.open.pop(request_id, None)
                print(f"Answer: {visible(outcome)}", flush=True)
            case {"type": "refused", "reason": str(reason)}:
                print(f"Not taken: {visible(reason)}", flush=True)
            case {"type": "text", "text": str(text)}:
                print(visible_block(text), flush=True)
            case {"type": "end", "status": str(status)}:
                print(f"The turn is {visible(status)}.", flush=True)
                code, reason = (ExitCode.DONE if status == "completed" else ExitCode.FAILED), ""
            case {"type": "hello", "workspace": str(workspace), "session": str(session)}:
                print(f"Attached to {visible(session)} in {visible(workspace)}. ctrl+d leaves.", flush=True)
            case _:
                pass
    if reason:
        say(reason)
    questions.put_nowait(None)
    return code
