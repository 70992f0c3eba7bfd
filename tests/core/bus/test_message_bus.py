"""The bus: every question settles exactly once, whatever happens at the same time."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

from ollm_tui.core import AbortController, ConfirmationDetails, ConfirmationResponse, MessageBus, Risk
from ollm_tui.core.base.errors import ConfirmationCancelled, ConfirmationTimeout
from ollm_tui.core.bus.message_bus import MAX_HOLD_SECONDS
from ollm_tui.core.bus.notices import ConfirmationRequested, ConfirmationSettled, Notice
from ollm_tui.core.bus.states import ConfirmationState
from ollm_tui.testing import FakeClock

T = TypeVar("T")
NAMES = st.text(min_size=1, max_size=20)


def details(name: str = "shell") -> ConfirmationDetails:
    return ConfirmationDetails(tool_name=name, description=f"runs {name}", risk=Risk.HIGH)


async def ask(bus: MessageBus, **extra: object) -> asyncio.Task[ConfirmationResponse]:
    """A question that has reached the queue."""
    before = len(bus.pending())
    task = asyncio.ensure_future(bus.request_confirmation(details(), **extra))  # type: ignore[arg-type]  # passed through
    while len(bus.pending()) == before and not task.done():
        await asyncio.sleep(0)
    return task


@given(st.lists(NAMES, min_size=2, max_size=30))
@settings(max_examples=100, deadline=None)
def test_every_request_has_an_id_of_its_own(names: list[str]) -> None:
    """Property 38."""

    async def scenario() -> None:
        bus = MessageBus()
        tasks = [asyncio.ensure_future(bus.request_confirmation(details(name))) for name in names]
        await asyncio.sleep(0)
        ids = [request.id for request in bus.pending()]
        assert len(set(ids)) == len(names)
        assert [request.details.tool_name for request in bus.pending()] == names
        for request_id in ids:
            bus.cancel_request(request_id)
        await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(scenario())


@given(st.lists(st.tuples(NAMES, st.booleans(), st.text(max_size=30)), min_size=1, max_size=12), st.randoms())
@settings(max_examples=100, deadline=None)
def test_each_answer_reaches_its_own_question(asked: list[tuple[str, bool, str]], random: object) -> None:
    """Properties 39 and 41: in whatever order the answers come."""

    async def scenario() -> None:
        bus = MessageBus()
        tasks = [asyncio.ensure_future(bus.request_confirmation(details(name))) for name, _, _ in asked]
        await asyncio.sleep(0)
        pairs = list(zip(bus.pending(), asked, strict=True))
        random.shuffle(pairs)  # type: ignore[attr-defined]  # hypothesis hands out a random.Random
        for request, (_, approved, reason) in pairs:
            answer = ConfirmationResponse(id=request.id, approved=approved, reason=reason)
            assert bus.respond_to_confirmation(answer) is True
        answers = await asyncio.gather(*tasks)
        assert [(answer.approved, answer.reason) for answer in answers] == [(yes, why) for _, yes, why in asked]

    asyncio.run(scenario())


async def test_nobody_answering_ends_in_a_time_out() -> None:
    """Property 40."""
    bus = MessageBus()
    with pytest.raises(ConfirmationTimeout, match=r"^Confirmation request timed out$"):
        await bus.request_confirmation(details(), timeout=0.01)
    assert bus.pending() == []


async def test_a_signal_withdraws_the_question() -> None:
    """Property 42."""
    bus, controller = MessageBus(), AbortController()
    task = await ask(bus, signal=controller.signal)
    controller.abort()
    with pytest.raises(ConfirmationCancelled, match=r"^Confirmation request cancelled$"):
        await task
    assert bus.pending() == []


async def test_an_aborted_signal_asks_nothing() -> None:
    bus, controller, seen = MessageBus(), AbortController(), list[Notice]()
    bus.subscribe(seen.append)
    controller.abort()
    with pytest.raises(ConfirmationCancelled):
        await bus.request_confirmation(details(), controller.signal)
    assert seen == []


async def test_a_late_or_unknown_answer_is_refused() -> None:
    bus = MessageBus()
    task = await ask(bus)
    request = bus.pending()[0]
    assert bus.respond_to_confirmation(ConfirmationResponse(id=request.id, approved=False)) is True
    assert bus.respond_to_confirmation(ConfirmationResponse(id=request.id, approved=True)) is False
    assert bus.respond_to_confirmation(ConfirmationResponse(id="nobody", approved=True)) is False
    assert bus.cancel_request(request.id) is False
    assert (await task).approved is False


async def test_a_cancelled_waiter_leaves_nothing_behind() -> None:
    bus, seen = MessageBus(), list[Notice]()
    bus.subscribe(seen.append)
    task = await ask(bus)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert bus.pending() == []
    assert [notice.confirmation.state for notice in seen if isinstance(notice, ConfirmationSettled)] == [
        ConfirmationState.CANCELLED
    ]


async def test_looking_at_a_question_stops_its_clock() -> None:
    clock = FakeClock()
    bus = MessageBus(clock)
    task = await ask(bus, timeout=30.0)
    request_id = bus.pending()[0].id
    clock.seconds += 20
    bus.hold(request_id)
    clock.seconds += 300
    bus.expire_due()
    assert len(bus.pending()) == 1
    bus.release(request_id)
    held = bus.find(request_id)
    assert held is not None and held.seconds_left(clock.monotonic()) == pytest.approx(10)
    clock.seconds += 11
    bus.expire_due()
    with pytest.raises(ConfirmationTimeout):
        await task


async def test_holding_does_not_last_for_ever() -> None:
    clock = FakeClock()
    bus = MessageBus(clock)
    task = await ask(bus, timeout=30.0)
    bus.hold(bus.pending()[0].id)
    clock.seconds += MAX_HOLD_SECONDS + 31
    bus.expire_due()
    with pytest.raises(ConfirmationTimeout):
        await task


async def test_ten_thousand_questions_settle_one_by_one() -> None:
    bus = MessageBus()
    tasks = [asyncio.ensure_future(bus.request_confirmation(details())) for _ in range(10_000)]
    await asyncio.sleep(0)
    requests = bus.pending()
    assert len(requests) == 10_000
    for request in reversed(requests):
        bus.respond_to_confirmation(ConfirmationResponse(id=request.id, approved=True))
    assert all(answer.approved for answer in await asyncio.gather(*tasks))
    assert bus.pending() == []


async def test_a_faulty_subscriber_disturbs_nobody(caplog: pytest.LogCaptureFixture) -> None:
    bus, seen = MessageBus(), list[Notice]()

    def faulty(notice: Notice) -> None:
        raise RuntimeError("I am broken")

    bus.subscribe(faulty)
    bus.subscribe(seen.append)
    task = await ask(bus)
    assert bus.respond_to_confirmation(ConfirmationResponse(id=bus.pending()[0].id, approved=True))
    assert (await task).approved
    assert [type(notice) for notice in seen] == [ConfirmationRequested, ConfirmationSettled]
    assert "I am broken" in caplog.text


async def test_a_slow_subscriber_holds_nobody_up_and_misses_nothing() -> None:
    bus, seen = MessageBus(), list[str]()

    async def slow(notice: Notice) -> None:
        await asyncio.sleep(0.001)
        if isinstance(notice, ConfirmationRequested):
            seen.append(notice.confirmation.request.id)

    unsubscribe = bus.subscribe(slow)
    tasks = [asyncio.ensure_future(bus.request_confirmation(details())) for _ in range(20)]
    await asyncio.sleep(0)
    ids = [request.id for request in bus.pending()]
    for request_id in ids:
        bus.cancel_request(request_id)
    await asyncio.gather(*tasks, return_exceptions=True)
    async with asyncio.timeout(5):
        while len(seen) < 20:
            await asyncio.sleep(0.005)
    assert seen == ids
    unsubscribe()
    await asyncio.sleep(0)
    assert [task for task in asyncio.all_tasks() if task is not asyncio.current_task()] == []


class BusMachine(RuleBasedStateMachine):
    """Requests, answers, expiry, cancelling, aborting, holding and leaving, in any order, on a virtual clock."""

    questions = Bundle("questions")

    @initialize()
    def begin(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.clock = FakeClock()
        self.bus = MessageBus(self.clock)
        self.settled: dict[str, list[ConfirmationState]] = {}
        self.tasks: dict[str, asyncio.Task[ConfirmationResponse]] = {}
        self.signals: dict[str, AbortController] = {}
        self.expected: dict[str, ConfirmationState] = {}
        self.unsubscribe = self.bus.subscribe(self.note)

    def note(self, notice: Notice) -> None:
        if isinstance(notice, ConfirmationSettled):
            self.settled.setdefault(notice.confirmation.request.id, []).append(notice.confirmation.state)

    def spin(self) -> None:
        for _ in range(3):
            self.loop.run_until_complete(asyncio.sleep(0))

    @rule(target=questions, timeout=st.one_of(st.none(), st.floats(0.5, 1000)))
    def request(self, timeout: float | None) -> str:
        controller = AbortController()

        async def start() -> asyncio.Task[ConfirmationResponse]:
            return asyncio.ensure_future(self.bus.request_confirmation(details(), controller.signal, timeout))

        task = self.loop.run_until_complete(start())
        self.spin()
        request_id = self.bus.pending()[-1].id
        self.tasks[request_id], self.signals[request_id] = task, controller
        return request_id

    @rule(question=questions, approved=st.booleans())
    def answer(self, question: str, approved: bool) -> None:
        won = self.bus.respond_to_confirmation(ConfirmationResponse(id=question, approved=approved))
        self.settle(question, ConfirmationState.APPROVED if approved else ConfirmationState.DENIED, won)

    @rule(question=questions)
    def cancel(self, question: str) -> None:
        self.settle(question, ConfirmationState.CANCELLED, self.bus.cancel_request(question))

    @rule(question=questions)
    def abort(self, question: str) -> None:
        was_open = question not in self.expected
        self.signals[question].abort()
        self.settle(question, ConfirmationState.CANCELLED, was_open)

    @rule(question=questions)
    def leave(self, question: str) -> None:
        was_open = question not in self.expected
        self.tasks[question].cancel()
        self.spin()
        self.settle(question, ConfirmationState.CANCELLED, was_open)

    @rule(question=questions)
    def hold(self, question: str) -> None:
        assert self.on_the_loop(lambda: self.bus.hold(question)) == (question not in self.expected)

    @rule(question=questions)
    def release(self, question: str) -> None:
        assert self.on_the_loop(lambda: self.bus.release(question)) == (question not in self.expected)

    @rule(seconds=st.floats(0, 2000))
    def time_passes(self, seconds: float) -> None:
        self.clock.seconds += seconds
        self.on_the_loop(self.bus.expire_due)
        still_open = {request.id for request in self.bus.pending()}
        for question in self.tasks:
            if question not in still_open and question not in self.expected:
                self.expected[question] = ConfirmationState.EXPIRED

    def on_the_loop(self, act: Callable[[], T]) -> T:
        async def run() -> T:
            return act()

        return self.loop.run_until_complete(run())

    def settle(self, question: str, outcome: ConfirmationState, won: bool) -> None:
        assert won == (question not in self.expected)
        if won:
            self.expected[question] = outcome

    @invariant()
    def each_settles_exactly_once(self) -> None:
        if hasattr(self, "loop"):
            self.spin()
            assert self.settled == {question: [outcome] for question, outcome in self.expected.items()}
            assert {request.id for request in self.bus.pending()} == self.tasks.keys() - self.expected.keys()
            for question, task in self.tasks.items():
                assert task.done() == (question in self.expected)

    def teardown(self) -> None:
        if not hasattr(self, "loop"):
            return
        for request in self.bus.pending():
            self.bus.cancel_request(request.id)
        self.spin()
        for task in self.tasks.values():
            if not task.cancelled():
                task.exception()
        self.unsubscribe()
        assert asyncio.all_tasks(self.loop) == set()
        assert [handle for handle in self.loop._scheduled if not handle.cancelled()] == []  # type: ignore[attr-defined]  # the one way to see leaked timers
        assert all(not controller.signal._listeners for controller in self.signals.values())
        self.loop.close()


TestBusMachine = BusMachine.TestCase
TestBusMachine.settings = settings(
    max_examples=100, stateful_step_count=25, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


def test_the_states_load_without_the_models() -> None:
    """The first frame draws with them."""
    script = "import sys, ollm_tui.core.bus.states, ollm_tui.core.bus.notices; sys.exit('pydantic' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
