"""Entries far from the screen leave their texts to the session's log, and get them back from there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ollm_tui.agent.events import (
    AssistantMessageEvent,
    ConfirmationRequestedEvent,
    ConfirmationSettledEvent,
    Event,
    LoggedResult,
    ToolCallEvent,
    ToolOutputEvent,
    ToolResultEvent,
    UserMessageEvent,
)
from ollm_tui.agent.session.log import SessionLog
from ollm_tui.agent.stream import EventStream
from ollm_tui.core.bus.confirmation import ConfirmationDetails, ConfirmationRequest
from ollm_tui.core.bus.message_bus import MessageBus
from ollm_tui.core.bus.states import ConfirmationState, Origin, Risk
from ollm_tui.tui.controllers.conversation_controller import ConversationController
from ollm_tui.tui.controllers.stored_entries import StoredEntriesController, first_with, read_back
from ollm_tui.tui.entry_texts import is_stored, source_of, text_size, without_text
from ollm_tui.tui.protocol import updates
from ollm_tui.tui.protocol.intents import FindEntry, ReadEntries
from ollm_tui.tui.values import AnswerEntry, CallEntry, EntriesChanged, Entry, NoteEntry
from ollm_tui.tui.widgets.tool_call_view import state_word
from tests.tui.pilot import SHORT_DIFF, stage, wait_until

LONG = "word " * 100


class Session:
    """A session's log, and the entries that its events leave on the screen."""

    def __init__(self, folder: Path) -> None:
        self.log = SessionLog(folder)
        self.stream = EventStream(MessageBus())
        self.entries: dict[str, Entry] = {}
        self._controller = ConversationController(recorded=lambda: not self.log.error)
        self.stream.subscribe(self.log.write)
        self.stream.subscribe(self._fold)

    def _fold(self, event: Event) -> None:
        for change in self._controller.fold(event):
            assert isinstance(change, EntriesChanged)
            self.entries.update((entry.id, entry) for entry in change.entries)

    def turn(self, number: int) -> None:
        """Ask, call two tools at once, and answer."""
        self.stream.publish(UserMessageEvent(text=f"question {number}: {LONG}"))
        for name in ("a", "b"):
            self.stream.publish(
                ToolCallEvent(call_id=f"{name}{number}", name="grep", arguments={"pattern": name}, origin=Origin.MODEL)
            )
        details = ConfirmationDetails(
            tool_name="grep", description="Search", risk=Risk.LOW, locations=(), args={}, preview=SHORT_DIFF
        )
        request = ConfirmationRequest(
            id=f"q{number}", call_id=f"a{number}", details=details, reason="asks", origin=Origin.MODEL, created_at=""
        )
        self.stream.publish(ConfirmationRequestedEvent(call_id=f"a{number}", request=request))
        for name in ("b", "a"):
            text = f"found {name} {number}: {LONG}"
            result = LoggedResult(ok=True, llm_content=text, return_display=text)
            self.stream.publish(ToolResultEvent(call_id=f"{name}{number}", result=result))
        self.stream.publish(AssistantMessageEvent(text=f"answer {number}: {LONG}", reasoning=f"because {number}"))

    @property
    def stored(self) -> list[Entry]:
        """The entries as they are far from the screen."""
        return [without_text(entry) for entry in self.entries.values()]


@pytest.fixture
def session(tmp_path: Path) -> Session:
    return Session(tmp_path / "session")


def test_what_left_its_text_to_the_log_gets_all_of_it_back(session: Session) -> None:
    for number in range(300):
        session.turn(number)
    stored = session.stored
    assert all(is_stored(entry) and not text_size(entry) for entry in stored)
    assert read_back(session.log.path, stored) == tuple(session.entries.values())
    for at in range(0, len(stored), 97):
        assert read_back(session.log.path, stored[at : at + 3]) == tuple(session.entries.values())[at : at + 3]


def test_damaged_lines_do_not_keep_others_from_being_found(session: Session) -> None:
    for number in range(300):
        session.turn(number)
    lines = session.log.path.read_bytes().splitlines(keepends=True)
    lines = [b"\0" * 900 + b"\n" if at % 3 and at != 1400 else line for at, line in enumerate(lines)]
    session.log.path.write_bytes(b"".join(lines))
    at = list(session.entries).index("user-401")
    question, *_ = read_back(session.log.path, session.stored[at : at + 1])
    assert source_of(question).startswith("question 200:")


def test_what_is_no_longer_in_the_log_says_so(session: Session) -> None:
    session.turn(1)
    stored = session.stored
    session.log.path.unlink()
    read = read_back(session.log.path, stored)
    assert all(source_of(entry).startswith("[This text was in the session's log") for entry in read)
    assert not any(is_stored(entry) or is_stored(without_text(entry)) for entry in read)


def test_what_is_not_recorded_and_what_is_short_stay_in_memory(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    session = Session(tmp_path / "file" / "session")
    session.turn(1)
    assert session.log.error
    assert session.stored == list(session.entries.values())
    assert without_text(NoteEntry("n", LONG * 9)) == NoteEntry("n", LONG * 9)


async def test_what_stands_below_keeps_its_place_while_a_text_is_read(session: Session) -> None:
    for number in range(300):
        session.turn(number)
    async with stage() as here:
        shown = here.app.dashboard.chat.transcript
        await here.post(updates.ConversationUpdate(EntriesChanged(tuple(session.entries.values()))))
        await here.press("f6", "g", "pagedown", "end")
        for number in range(300, 500):
            session.turn(number)
        await here.post(updates.ConversationUpdate(EntriesChanged(tuple(session.entries.values()))))
        height = shown.document.height
        await here.press("g")
        assert shown.document.height == height


@pytest.mark.parametrize(
    ("words", "found"),
    [("ANSWER 7:", "answer 7:"), ("found b 5", "found b 5:"), ("ä", ""), ("nowhere", "")],
)
def test_words_are_found_in_what_only_the_log_has(session: Session, words: str, found: str) -> None:
    for number in range(10):
        session.turn(number)
    entry = first_with(session.log.path, session.stored[2:], words)
    assert (source_of(session.entries[entry.id]) if entry is not None else "").startswith(found)
    assert bool(entry) == bool(found)


async def test_the_first_of_a_long_session_is_read_back_shown_found_and_copied(session: Session) -> None:
    for number in range(300):
        session.turn(number)
    async with stage() as here:
        controller = StoredEntriesController(lambda: session.log.path, here.app.post_update)
        shown = here.app.dashboard.chat.transcript

        async def answer(kind: type[ReadEntries] | type[FindEntry]) -> None:
            await wait_until(here.pilot, lambda: bool(here.backend.of(kind)))
            for intent in here.backend.of(kind):
                await controller.handle(intent)
            here.backend.intents.clear()

        async def until(predicate: Callable[[], bool]) -> None:
            await wait_until(here.pilot, predicate)

        await here.post(updates.ConversationUpdate(EntriesChanged(tuple(session.entries.values()))))
        kept = sum(text_size(item.entry) for item in shown.document.items)
        assert kept < sum(text_size(entry) for entry in session.entries.values()) * 0.5
        await here.press("f6", "g")
        assert "question 0" not in here.text
        await answer(ReadEntries)
        await until(lambda: "question 0" in here.text and "answer 0" in here.text)
        await here.press("ctrl+f", *"found a 150:", "enter")
        await answer(FindEntry)
        await until(lambda: shown.chosen_entry is not None and shown.chosen_entry.id == "a150")
        await answer(ReadEntries)
        shown.focus()
        await here.press("c")
        assert here.app.clipboard.startswith("found a 150:")


def test_a_call_behind_one_that_was_asked_about_waits_until_that_has_ended(session: Session) -> None:
    def words() -> list[str]:
        calls = [entry for entry in session.entries.values() if isinstance(entry, CallEntry)]
        return [state_word(call)[0] for call in calls]

    for name in ("a", "b", "c"):
        session.stream.publish(ToolCallEvent(call_id=name, name="write_file", arguments={}, origin=Origin.MODEL))
    assert words() == ["RUN", "RUN", "RUN"]
    for name in ("a", "c"):
        details = ConfirmationDetails(tool_name="write_file", description="Write", risk=Risk.LOW, locations=(), args={})
        request = ConfirmationRequest(
            id=f"q{name}", call_id=name, details=details, reason="asks", origin=Origin.MODEL, created_at=""
        )
        session.stream.publish(ConfirmationRequestedEvent(call_id=name, request=request))
    assert words() == ["WAIT", "WAIT", "WAIT"]
    for name in ("c", "a"):
        session.stream.publish(
            ConfirmationSettledEvent(call_id=name, request_id=f"q{name}", outcome=ConfirmationState.APPROVED, by="user")
        )
    assert words() == ["RUN", "WAIT", "WAIT"], "approved or not, each runs in its turn"
    result = LoggedResult(ok=True, llm_content="done", return_display="done")
    session.stream.publish(ToolResultEvent(call_id="a", result=result))
    assert words() == ["ok", "RUN", "RUN"]


def test_the_line_of_running_tests_says_how_far_they_are(session: Session) -> None:
    for call_id, tool in (("t", "run_tests"), ("s", "shell")):
        session.stream.publish(ToolCallEvent(call_id=call_id, name=tool, arguments={}, origin=Origin.MODEL))
        session.stream.publish(ToolOutputEvent(call_id=call_id, text="...... [ 30%]\n12 of 40 tests\n"))
        session.stream.publish(ToolOutputEvent(call_id=call_id, text="..."))
    assert [entry.result for entry in session.entries.values() if isinstance(entry, CallEntry)] == ["12 of 40", ""]
    ended = LoggedResult(ok=True, llm_content="40 passed", return_display="40 passed")
    session.stream.publish(ToolResultEvent(call_id="t", result=ended))
    assert [entry.result for entry in session.entries.values() if isinstance(entry, CallEntry)] == ["", ""]


def test_answers_of_an_earlier_run_name_the_model_that_gave_them() -> None:
    said = [AssistantMessageEvent(text="Hello.", model="qwen3:8b"), AssistantMessageEvent(text="Of an older log.")]
    entries = ConversationController("llava:7b").replay(said)
    assert [entry.model for entry in entries if isinstance(entry, AnswerEntry)] == ["qwen3:8b", "llava:7b"]
