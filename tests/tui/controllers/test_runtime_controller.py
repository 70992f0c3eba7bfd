"""The controllers on the real bus and stream: events become values, answers settle questions exactly once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from ollm_tui.agent.events import (
    AssistantMessageEvent,
    ConfirmationRequestedEvent,
    ConfirmationSettledEvent,
    ErrorEvent,
    Event,
    LoggedResult,
    ModelLoadingEvent,
    ProposedCall,
    ReasoningDeltaEvent,
    SessionStartedEvent,
    TextDeltaEvent,
    ToolCallEvent,
    ToolResultEvent,
    TurnError,
    TurnFinishedEvent,
    TurnStatus,
    UserMessageEvent,
    read_event,
)
from ollm_tui.agent.session.log import sessions_folder
from ollm_tui.agent.stream import EventStream
from ollm_tui.core.base.errors import ConfirmationTimeout
from ollm_tui.core.base.results import ToolError
from ollm_tui.core.bus.confirmation import ConfirmationDetails, ConfirmationResponse
from ollm_tui.core.bus.message_bus import MessageBus
from ollm_tui.core.bus.states import CallOutcome, CallState, ConfirmationState, Origin, RememberScope, Risk
from ollm_tui.core.execution.executor import ToolExecutor
from ollm_tui.core.fence.workspace import Workspace
from ollm_tui.core.policy.engine import PolicyEngine
from ollm_tui.core.policy.rules import PolicyConfig
from ollm_tui.core.tools.registry import ToolRegistry
from ollm_tui.options import Options
from ollm_tui.testing import FakeClock
from ollm_tui.tui.controllers.confirmations_controller import ConfirmationsController
from ollm_tui.tui.controllers.conversation_controller import ConversationController, summary_of
from ollm_tui.tui.controllers.runtime_controller import open_backend
from ollm_tui.tui.controllers.turns_controller import ActivityTracker
from ollm_tui.tui.protocol import updates
from ollm_tui.tui.protocol.intents import DecideConfirmation, DenyConfirmations, HoldConfirmation, ReleaseConfirmation
from ollm_tui.tui.values import (
    Activity,
    AnswerEntry,
    AnswerGrew,
    CallEntry,
    ConfirmationQueueSnapshot,
    EntriesChanged,
    Entry,
)


class Bench:
    """A bus and a stream under one hand-moved clock, with a queue that follows the stream."""

    def __init__(self, folder: Path) -> None:
        self.clock = FakeClock()
        self.bus = MessageBus(self.clock)
        self.stream = EventStream(self.bus, self.clock)
        self.posted: list[updates.Update] = []
        executor = ToolExecutor(ToolRegistry(), PolicyEngine(PolicyConfig()), self.bus, Workspace(folder))
        self.queue = ConfirmationsController(self.bus, executor, self.posted.append, lambda work: work.close())
        self.stream.subscribe(self._read)

    def _read(self, event: Event) -> None:
        match event:
            case ConfirmationRequestedEvent():
                self.queue.requested(event)
            case ConfirmationSettledEvent():
                self.queue.settled(event)
            case _:
                pass

    @property
    def snapshots(self) -> list[ConfirmationQueueSnapshot]:
        return [update.queue for update in self.posted if isinstance(update, updates.QueueUpdate)]

    async def ask(self, timeout: float | None = None) -> asyncio.Task[ConfirmationResponse]:
        details = ConfirmationDetails(tool_name="shell", description="Run it", risk=Risk.MEDIUM)
        task = asyncio.create_task(self.bus.request_confirmation(details, timeout=timeout, call_id="c1"))
        await asyncio.sleep(0)
        return task


async def test_questions_are_numbered_for_the_session_and_never_anew(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    first, second = await bench.ask(), await bench.ask()
    items = bench.queue.snapshot().pending
    assert [item.ordinal for item in items] == [1, 2]
    bench.queue.handle(DecideConfirmation(items[0].id, approved=True))
    third = await bench.ask()
    assert [item.ordinal for item in bench.queue.snapshot().pending] == [2, 3]
    for task in (first, second, third):
        task.cancel()


async def test_an_answer_carries_reason_changes_and_what_to_remember(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    task = await bench.ask()
    item_id = bench.queue.snapshot().pending[0].id
    decision = DecideConfirmation(item_id, True, modified={"command": "ls"}, remember=RememberScope.SESSION)
    bench.queue.handle(decision)
    response = await task
    assert (response.modified_args, response.remember) == ({"command": "ls"}, RememberScope.SESSION)


@pytest.mark.parametrize("first", ["answer", "expiry"])
async def test_a_yes_that_races_with_the_time_out_settles_once(first: str, tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    task = await bench.ask(timeout=10.0)
    item_id = bench.queue.snapshot().pending[0].id
    bench.clock.seconds += 10.0
    expire: Callable[[], object] = bench.bus.expire_due
    if first == "answer":
        bench.queue.handle(DecideConfirmation(item_id, approved=True))
        expire()
        assert (await task).approved
        assert await ended(bench) is ConfirmationState.APPROVED
    else:
        expire()
        bench.queue.handle(DecideConfirmation(item_id, approved=True))
        assert [type(update) for update in bench.posted] == [updates.ToastUpdate], "too late: it is denied already"
        with pytest.raises(ConfirmationTimeout):
            await task
        assert await ended(bench) is ConfirmationState.EXPIRED


async def test_holding_stops_the_clock_that_the_screen_shows(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    task = await bench.ask(timeout=60.0)
    (item,) = bench.queue.snapshot().pending
    assert item.deadline == bench.clock.monotonic() + 60.0
    bench.queue.handle(HoldConfirmation(item.id))
    (held,) = bench.queue.snapshot().pending
    assert held.held
    assert held.deadline is None
    bench.clock.seconds += 30
    bench.queue.handle(ReleaseConfirmation(item.id))
    (going,) = bench.queue.snapshot().pending
    assert going.deadline == bench.clock.monotonic() + 60.0
    task.cancel()


async def test_a_question_that_did_not_change_is_the_same_object_in_the_next_snapshot(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    tasks = [await bench.ask(timeout=60.0) for _ in range(3)]
    before = bench.queue.snapshot().items
    bench.clock.seconds += 7
    bench.queue.handle(HoldConfirmation(before[1].id))
    after = bench.queue.snapshot().items
    assert [one is other for one, other in zip(before, after, strict=True)] == [True, False, True]
    for task in tasks:
        task.cancel()


async def test_many_questions_are_told_together_and_each_end_once_before_it_is_gone(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    tasks = [await bench.ask() for _ in range(100)]
    await eventually(lambda: bool(bench.snapshots) and len(bench.snapshots[-1].pending) == 100)
    bench.queue.handle(DenyConfirmations(tuple(item.id for item in bench.snapshots[-1].items)))
    await eventually(lambda: not bench.snapshots[-1].items)
    assert all(one.state is ConfirmationState.DENIED for one in bench.snapshots[-2].items)
    assert len(bench.snapshots[-2].items) == 100
    assert len(bench.snapshots) < 20
    await asyncio.gather(*tasks)


async def ended(bench: Bench) -> ConfirmationState:
    """How the one question ended, as the screen is shown it."""

    def found() -> list[ConfirmationState]:
        return [item.state for queue in bench.snapshots for item in queue.items if not item.pending]

    await eventually(lambda: bool(found()))
    return found()[0]


async def eventually(happened: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not happened():
            await asyncio.sleep(0.01)


# -- folding -----------------------------------------------------------------------------------------------------------


def fold(*events: Event) -> dict[str, Entry]:
    controller, entries = ConversationController(model="m"), dict[str, Entry]()
    for event in events:
        for change in controller.fold(event, ordinal=7):
            if isinstance(change, EntriesChanged):
                entries |= {entry.id: entry for entry in change.entries}
    return entries


def test_a_streamed_answer_and_its_message_are_one_entry() -> None:
    controller = ConversationController(model="m")
    begun, *grown = controller.fold(TextDeltaEvent(text="Hel"))
    assert isinstance(begun, EntriesChanged)
    grown += controller.fold(TextDeltaEvent(text="lo"))
    assert [change.text for change in grown if isinstance(change, AnswerGrew)] == ["Hel", "lo"]
    (final,) = controller.fold(AssistantMessageEvent(text="Hello"))
    assert isinstance(final, EntriesChanged)
    (entry,) = final.entries
    assert entry.id == begun.entries[0].id
    assert isinstance(entry, AnswerEntry)
    assert (entry.text, entry.live) == ("Hello", False)


def test_a_replayed_log_without_deltas_gives_the_same_conversation() -> None:
    call = ToolCallEvent(call_id="c", name="ls", arguments={"path": "src"}, origin=Origin.MODEL)
    result = ToolResultEvent(
        call_id="c", result=LoggedResult(ok=True, llm_content="x", return_display="x", duration_ms=4)
    )
    message = AssistantMessageEvent(text="Hello")
    live = fold(
        UserMessageEvent(text="hi"), ReasoningDeltaEvent(text="hm"), TextDeltaEvent(text="Hello"), message, call, result
    )
    replayed = fold(UserMessageEvent(text="hi"), message, call, result)
    assert list(live.values()) == list(replayed.values())


def test_the_seconds_of_an_answer_are_the_models_own_and_not_the_persons() -> None:
    call = ToolCallEvent(call_id="c", name="ls", arguments={}, origin=Origin.MODEL, time="2026-01-31T10:00:02Z")
    result = LoggedResult(ok=True, llm_content="x", return_display="x", duration_ms=4)
    entries = fold(
        UserMessageEvent(text="hi", time="2026-01-31T10:00:00Z"),
        AssistantMessageEvent(text="Let me look.", time="2026-01-31T10:00:02Z"),
        call,
        ToolResultEvent(call_id="c", result=result, time="2026-01-31T10:05:00Z"),
        AssistantMessageEvent(text="Done.", time="2026-01-31T10:05:03Z"),
    )
    assert [entry.seconds for entry in entries.values() if isinstance(entry, AnswerEntry)] == [2.0, 3.0]


def test_a_cut_answer_keeps_its_text_and_says_so() -> None:
    entries = fold(
        TextDeltaEvent(text="Half"),
        AssistantMessageEvent(text="Half", partial=True),
        TurnFinishedEvent(status=TurnStatus.FAILED),
    )
    (entry,) = entries.values()
    assert isinstance(entry, AnswerEntry)
    assert (entry.text, entry.partial) == ("Half", True)


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        ("PolicyDeniedError", CallOutcome.DENIED),
        ("ConfirmationDenied", CallOutcome.DENIED),
        ("ConfirmationTimeout", CallOutcome.EXPIRED),
        ("OperationCancelled", CallOutcome.CANCELLED),
        ("ShellExecutionError", CallOutcome.FAILED),
    ],
)
def test_a_calls_end_is_its_outcome(error: str, outcome: CallOutcome) -> None:
    failed = ToolError(type=error, code="X", slug="execution_error", message="no")
    result = LoggedResult(ok=False, llm_content="no", return_display="no", error=failed)
    call = ToolCallEvent(call_id="c", name="shell", arguments={"command": "make\ntest"}, origin=Origin.MODEL)
    entry = fold(call, ToolResultEvent(call_id="c", result=result))["c"]
    assert isinstance(entry, CallEntry)
    assert (entry.state, entry.outcome, entry.summary) == (CallState.DONE, outcome, "make ...")


def test_a_summary_names_what_a_call_is_about() -> None:
    assert summary_of({"overwrite": True, "path": "a.txt"}) == "a.txt"
    assert summary_of({"todos": [1, 2, 3]}) == "3 todos"
    assert summary_of({"paths": ["a.txt"]}) == "a.txt"
    assert summary_of({"paths": ["a\nb", "c", "d"]}) == "a ... and 2 more"
    assert summary_of({}) == ""


def test_the_activity_follows_the_turn_and_stopping_outlasts_what_still_arrives() -> None:
    tracker = ActivityTracker(FakeClock().monotonic)
    call = ToolCallEvent(call_id="c", name="shell", arguments={}, origin=Origin.MODEL)
    seen = [tracker.fold(event) for event in (UserMessageEvent(text="x"), TextDeltaEvent(text="y"), call)]
    assert [update.activity for update in seen if update] == [Activity.THINKING, Activity.STREAMING, Activity.RUNNING]
    assert tracker.stopping() is not None
    assert tracker.fold(TextDeltaEvent(text="late")) is None
    ended = tracker.fold(TurnFinishedEvent(status=TurnStatus.INTERRUPTED))
    assert ended is not None
    assert ended.activity is Activity.IDLE


def test_a_model_that_is_being_loaded_is_told_from_one_that_thinks() -> None:
    tracker = ActivityTracker(FakeClock().monotonic)
    asked, loading = UserMessageEvent(text="x"), ModelLoadingEvent(model="qwen3:8b")
    seen = [tracker.fold(event) for event in (asked, loading, loading.model_copy(update={"loaded": True}))]
    assert [(update.activity, update.detail) for update in seen if update] == [
        (Activity.THINKING, ""), (Activity.THINKING, "loading qwen3:8b,"), (Activity.THINKING, ""),
    ]  # fmt: skip


def test_what_a_person_approved_only_begins_to_run_then() -> None:
    tracker = ActivityTracker(FakeClock().monotonic)
    call = ToolCallEvent(call_id="c", name="shell", arguments={}, origin=Origin.MODEL)
    answer = ConfirmationSettledEvent(call_id="c", request_id="q", outcome=ConfirmationState.APPROVED, by="person")
    before, again = tracker.fold(call), tracker.fold(answer)
    assert before == again
    assert again is not None and again.activity is Activity.RUNNING, "the status counts its seconds from here"


def test_a_failed_turn_says_why_and_keeps_saying_it() -> None:
    tracker = ActivityTracker(FakeClock().monotonic)
    tracker.fold(UserMessageEvent(text="x"))
    tracker.fold(ErrorEvent(error=TurnError(type="ProviderError", message="http://127.0.0.1:9 refused")))
    update = tracker.fold(TurnFinishedEvent(status=TurnStatus.FAILED))
    assert update is not None
    assert (update.activity, update.error) == (Activity.FAILED, "http://127.0.0.1:9 refused")


async def test_a_dashboards_log_begins_with_its_session(tmp_path: Path) -> None:
    options = Options(workspace=tmp_path, provider="offline")
    async with open_backend(options, lambda update: None, FakeClock()):
        (path,) = sessions_folder().glob("*/events.jsonl")
        first = read_event(path.read_text().splitlines()[0])
    assert isinstance(first, SessionStartedEvent)
    assert (first.id, first.workspace, first.provider) == (1, str(tmp_path), "offline")
    assert first.session_id == path.parent.name


def test_the_last_sentence_is_the_models_last_one_in_this_turn() -> None:
    controller = ConversationController()
    assert controller.sentence_before("a") == ""
    controller.fold(UserMessageEvent(text="hi"))
    controller.fold(AssistantMessageEvent(text="I read it.\n\nIt is short. Now I change `v1.2` of it."))
    assert controller.sentence_before("a") == "Now I change `v1.2` of it."
    controller.fold(UserMessageEvent(text="and then?"))
    assert controller.sentence_before("a") == ""


def test_each_call_of_a_reply_has_the_sentence_that_came_before_it() -> None:
    text = "First I look. Then I build it. Done."
    places = {"a": len("First I look. "), "b": len("First I look. "), "c": len("First I look. Then I build it.")}
    calls = tuple(ProposedCall(id=each, name="shell", arguments={}, text_before=at) for each, at in places.items())
    controller = ConversationController()
    controller.fold(AssistantMessageEvent(text=text, tool_calls=calls))
    assert [controller.sentence_before(each) for each in "abc"] == [
        "First I look.",
        "First I look.",
        "Then I build it.",
    ]
