"""The pipeline: what is judged, asked, bound, run and kept (architecture, "The way of a tool call")."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from ollm_tui.core import (
    AbortController,
    ConfirmationResponse,
    Effect,
    MessageBus,
    Parameters,
    PolicyCondition,
    PolicyConfig,
    PolicyEngine,
    PolicyRule,
    Risk,
    Tool,
    ToolExecutor,
    ToolGroup,
    ToolInvocation,
    ToolRegistry,
    ToolResult,
    Workspace,
)
from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.base.errors import ERROR_TABLE, OperationCancelled, ToolFailure
from ollm_tui.core.base.results import JsonObject, ToolData, UpdateOutput
from ollm_tui.core.bus.confirmation import ConfirmationDetails
from ollm_tui.core.bus.message_bus import Subscriber
from ollm_tui.core.bus.notices import ConfirmationRequested, Notice, OutputProduced
from ollm_tui.core.execution import permission
from ollm_tui.core.execution.calls import CallOrder, CallRecord
from ollm_tui.core.execution.options import AutoAnswer, ExecutorOptions
from ollm_tui.core.fence.workspace import Access
from ollm_tui.core.policy.rules import Decision, Mode, Operator
from ollm_tui.core.tools.base import CallFacts, Question, TouchedPath
from ollm_tui.core.tools.context import Limits, ToolContext
from ollm_tui.testing import Answer, answer_confirmations


class NoteParameters(Parameters):
    text: str
    path: str | None = None
    own_question: bool = False


class NoteInvocation(ToolInvocation[NoteParameters]):
    """Writes down that it ran; what it does beside that is up to each test."""

    ran: ClassVar[list[str]] = []
    act: Callable[[NoteInvocation, AbortSignal, UpdateOutput | None], object] | None = None
    state = "unchanged"

    def get_description(self) -> str:
        return f"Note {self.params.text!r}"

    def touched_paths(self) -> list[TouchedPath]:
        return [TouchedPath(self.params.path, Access.WRITE)] if self.params.path else []

    async def should_confirm_execute(self, signal: AbortSignal) -> ConfirmationDetails | Literal[False]:
        return self.confirmation_details(Risk.HIGH) if self.params.own_question else False

    async def question(self) -> Question:
        return Question(type(self).state)

    async def execute(self, signal: AbortSignal, update_output: UpdateOutput | None = None) -> ToolResult:
        if type(self).act is not None:
            outcome = type(self).act(self, signal, update_output)
            if asyncio.iscoroutine(outcome):
                await outcome
        self.ran.append(self.params.text)
        return ToolResult.of_text(f"noted {self.params.text}")


@pytest.fixture(autouse=True)
def fresh_notes() -> None:
    NoteInvocation.ran, NoteInvocation.act, NoteInvocation.state = [], None, "unchanged"


def note_tool(time_limit: float | None = 300.0) -> Tool[NoteParameters]:
    return Tool(
        name="note",
        display_name="Note",
        description="Writes down",
        group=ToolGroup.SYSTEM,
        effect=Effect.WRITES,
        parameters=NoteParameters,
        invocation=NoteInvocation,
        risk=Risk.MEDIUM,
        time_limit=time_limit,
    )


def executor(
    tmp_path: Path,
    action: str = "ask",
    *,
    attended: bool = True,
    tool: Tool[NoteParameters] | None = None,
    bus: MessageBus | None = None,
    **more: object,
) -> ToolExecutor:
    registry = ToolRegistry()
    registry.register(tool or note_tool())
    policy = PolicyEngine(PolicyConfig(rules=[PolicyRule(tool="note", action=action)]))
    return ToolExecutor(registry, policy, bus or MessageBus(), Workspace(tmp_path), attended, ExecutorOptions(**more))  # type: ignore[arg-type]  # keyword options passed through


async def test_an_allowed_call_runs_unasked(tmp_path: Path) -> None:
    house = executor(tmp_path, "allow")
    result = await house.execute("note", {"text": "hello"})
    assert (result.ok, result.llm_content, NoteInvocation.ran) == (True, "noted hello", ["hello"])


async def test_a_denied_call_does_not_run_and_says_why(tmp_path: Path) -> None:
    result = await executor(tmp_path, "deny").execute("note", {"text": "hello"})
    assert result.error is not None
    assert (result.error.type, result.error.code, result.error.slug) == (
        "PolicyDeniedError",
        "POLICY_DENIED",
        "policy_denied",
    )
    assert "policy rule 1" in result.error.message
    assert NoteInvocation.ran == []


async def test_an_approved_call_runs(tmp_path: Path) -> None:
    house = executor(tmp_path)
    asked = answer_confirmations(house.bus, Answer())
    result = await house.execute("note", {"text": "hello"}, call_id="c1")
    assert result.ok and NoteInvocation.ran == ["hello"]
    request = asked[0]
    assert (request.call_id, request.details.tool_name, request.details.risk) == ("c1", "note", Risk.MEDIUM)
    assert request.details.args == {"text": "hello", "ownQuestion": False}
    assert "policy rule 1" in request.reason


@given(reason=st.text(min_size=1))
@settings(max_examples=100, deadline=None)
def test_the_reason_of_a_denial_reaches_the_model_word_for_word(
    tmp_path_factory: pytest.TempPathFactory, reason: str
) -> None:
    async def scenario() -> None:
        NoteInvocation.ran = []
        house = executor(tmp_path_factory.getbasetemp())
        answer_confirmations(house.bus, Answer(False, reason=reason))
        result = await house.execute("note", {"text": "hello"})
        assert result.error is not None
        assert (result.error.type, result.error.code) == ("ConfirmationDenied", "USER_DENIED")
        assert reason in result.for_model()
        assert NoteInvocation.ran == []

    asyncio.run(scenario())


async def test_changed_arguments_are_judged_and_asked_about_again(tmp_path: Path) -> None:
    house = executor(tmp_path)
    asked = answer_confirmations(house.bus, Answer(modified_args={"text": "better"}), Answer())
    result = await house.execute("note", {"text": "hello"})
    assert result.ok and NoteInvocation.ran == ["better"]
    assert [each.details.args["text"] for each in asked] == ["hello", "better"]
    assert asked[1].replaces == asked[0].id


async def test_changed_arguments_whose_review_was_approved_run_at_once(tmp_path: Path) -> None:
    house = executor(tmp_path)
    review = await house.review("note", {"text": "better"})
    asked = answer_confirmations(house.bus, Answer(modified_args={"text": "better"}, reviewed=review.digest))
    result = await house.execute("note", {"text": "hello"})
    assert result.ok and NoteInvocation.ran == ["better"]
    assert len(asked) == 1


@pytest.mark.parametrize("what", ["arguments", "state"])
async def test_an_approved_review_holds_for_nothing_but_what_was_reviewed(tmp_path: Path, what: str) -> None:
    house = executor(tmp_path)
    review = await house.review("note", {"text": "better"})
    given: dict[str, JsonValue] = {"text": "worse" if what == "arguments" else "better"}

    def change(notice: Notice) -> None:
        if what == "state" and isinstance(notice, ConfirmationRequested):
            NoteInvocation.state = "changed"

    house.bus.subscribe(change)
    asked = answer_confirmations(house.bus, Answer(modified_args=given, reviewed=review.digest), Answer(False))
    result = await house.execute("note", {"text": "hello"})
    assert not result.ok and NoteInvocation.ran == []
    assert len(asked) == 2 and asked[1].details.args["text"] == given["text"]


async def test_changed_arguments_that_do_not_fit_are_a_validation_error(tmp_path: Path) -> None:
    house = executor(tmp_path)
    answer_confirmations(house.bus, Answer(modified_args={"text": 5}))
    result = await house.execute("note", {"text": "hello"})
    assert result.error is not None and result.error.type == "ValidationError"
    assert NoteInvocation.ran == []


async def test_what_changed_since_it_was_shown_is_asked_about_again(tmp_path: Path) -> None:
    house = executor(tmp_path)

    def change(notice: Notice) -> None:
        if isinstance(notice, ConfirmationRequested) and NoteInvocation.state == "unchanged":
            NoteInvocation.state = "changed"

    house.bus.subscribe(change)
    asked = answer_confirmations(house.bus, Answer(), Answer())
    result = await house.execute("note", {"text": "hello"})
    assert result.ok and NoteInvocation.ran == ["hello"]
    assert len(asked) == 2 and asked[1].replaces == asked[0].id


@pytest.mark.parametrize(
    ("auto_answer", "runs", "code"), [(AutoAnswer.NOBODY, [], "POLICY_DENIED"), (AutoAnswer.YES, ["hello"], None)]
)
async def test_without_a_person_questions_are_settled_at_once(
    tmp_path: Path, auto_answer: AutoAnswer, runs: list[str], code: str | None
) -> None:
    house = executor(tmp_path, attended=False, auto_answer=auto_answer, nobody_hint="; --yes approves")
    result = await house.execute("note", {"text": "hello"})
    assert NoteInvocation.ran == runs
    assert (result.error.code if result.error else None) == code
    if result.error:
        assert result.error.message == "needs confirmation and nobody is there to answer; --yes approves"
        assert result.error.details == {"decision": "ask"}


async def test_yes_never_changes_a_deny(tmp_path: Path) -> None:
    result = await executor(tmp_path, "deny", attended=False, auto_answer=AutoAnswer.YES).execute("note", {"text": "x"})
    assert result.error is not None and result.error.code == "POLICY_DENIED"


async def test_the_tools_own_question_holds_under_every_rule_and_mode(tmp_path: Path) -> None:
    house = executor(tmp_path, "allow", mode=Mode.YOLO)
    asked = answer_confirmations(house.bus, Answer(False))
    result = await house.execute("note", {"text": "x", "ownQuestion": True})
    assert len(asked) == 1 and NoteInvocation.ran == [] and not result.ok


async def test_a_path_outside_fails_whatever_anybody_says(tmp_path: Path) -> None:
    (tmp_path / "ws").mkdir()
    house = executor(tmp_path / "ws", "deny", attended=False, auto_answer=AutoAnswer.YES)
    result = await house.execute("note", {"text": "x", "path": "../outside"})
    assert result.error is not None
    assert (result.error.type, result.error.slug) == ("InvalidPathError", "security")
    assert "--add-dir" in result.error.message


async def test_protected_files_ask_and_denied_ones_stay_denied(tmp_path: Path) -> None:
    house = executor(tmp_path, "allow", mode=Mode.YOLO)
    asked = answer_confirmations(house.bus, Answer())
    assert (await house.execute("note", {"text": "x", "path": ".env"})).ok
    assert ".env" in asked[0].reason
    denied = await house.execute("note", {"text": "x", "path": ".ollm/config.toml"})
    assert denied.error is not None and denied.error.code == "POLICY_DENIED"


async def test_a_cancelled_question_cancels_the_call(tmp_path: Path) -> None:
    house, controller = executor(tmp_path), AbortController()
    task = asyncio.ensure_future(house.execute("note", {"text": "x"}, controller.signal))
    while not house.bus.pending():
        await asyncio.sleep(0)
    controller.abort("no longer wanted")
    result = await task
    assert result.error is not None
    assert (result.error.type, result.error.code) == ("OperationCancelled", "CANCELLED")
    assert "no longer wanted" in result.error.message and NoteInvocation.ran == []


async def test_aborting_keeps_the_partial_output(tmp_path: Path) -> None:
    """Property 48, as the executor returns it."""
    house, controller = executor(tmp_path, "allow"), AbortController()

    async def wait(invocation: NoteInvocation, signal: AbortSignal, tell: UpdateOutput | None) -> None:
        asyncio.get_running_loop().call_later(0.01, controller.abort)
        try:
            await signal.guard(asyncio.sleep(30))
        except OperationCancelled as cancelled:
            raise OperationCancelled(cancelled.message, partial="half of it") from None

    NoteInvocation.act = wait
    result = await house.execute("note", {"text": "x"}, controller.signal)
    assert result.error is not None and result.error.code == "CANCELLED"
    assert result.llm_content.startswith("half of it") and NoteInvocation.ran == []


async def test_a_call_over_its_limit_is_stopped_and_says_how_long_it_took(tmp_path: Path) -> None:
    house = executor(tmp_path, "allow", tool=note_tool(time_limit=0.05))

    async def wait(invocation: NoteInvocation, signal: AbortSignal, tell: UpdateOutput | None) -> None:
        await signal.guard(asyncio.sleep(30))

    NoteInvocation.act = wait
    result = await house.execute("note", {"text": "x"})
    assert result.error is not None and result.error.type == "ToolTimeoutError"
    assert "0.05 s" in result.error.message and result.error.details["limitSeconds"] == 0.05


async def test_waiting_for_a_person_is_not_counted(tmp_path: Path) -> None:
    house = executor(tmp_path, tool=note_tool(time_limit=0.6))
    task = asyncio.ensure_future(house.execute("note", {"text": "x"}))
    while not house.bus.pending():
        await asyncio.sleep(0.001)
    await asyncio.sleep(0.8)
    house.bus.respond_to_confirmation(ConfirmationResponse(id=house.bus.pending()[0].id, approved=True))
    result = await task
    assert result.ok and result.waited_ms >= 700 and result.duration_ms < 600


async def test_output_streams_to_the_caller_and_to_the_bus(tmp_path: Path) -> None:
    house, heard, published = executor(tmp_path, "allow"), list[str](), list[Notice]()
    house.bus.subscribe(published.append)

    def talk(invocation: NoteInvocation, signal: AbortSignal, tell: UpdateOutput | None) -> None:
        assert tell is not None
        tell("one")
        tell("two")

    NoteInvocation.act = talk
    await house.execute("note", {"text": "x"}, update_output=heard.append, call_id="c9")
    assert heard == ["one", "two"]
    assert published == [OutputProduced("c9", "one"), OutputProduced("c9", "two")]


class Failing:
    """What a tool may raise, and what must come back."""

    @staticmethod
    def with_error(error: Exception) -> Callable[[NoteInvocation, AbortSignal, UpdateOutput | None], object]:
        def act(invocation: NoteInvocation, signal: AbortSignal, tell: UpdateOutput | None) -> None:
            raise error

        return act


@given(message=st.text(), kind=st.sampled_from(sorted(ERROR_TABLE)))
@settings(max_examples=100, deadline=None)
def test_every_failure_is_a_result_with_type_and_message(
    tmp_path_factory: pytest.TempPathFactory, message: str, kind: str
) -> None:
    """Properties 49 and 57."""
    failure = ERROR_TABLE[kind]
    try:
        error: ToolFailure = failure(message)
    except TypeError:
        error = failure()  # type: ignore[call-arg]  # those with a message of their own

    async def scenario() -> None:
        NoteInvocation.act = Failing.with_error(error)
        result = await executor(tmp_path_factory.getbasetemp(), "allow").execute("note", {"text": "x"})
        assert result.error is not None and result.error.type == kind
        assert result.error.message == error.message and result.llm_content and result.return_display

    asyncio.run(scenario())


@pytest.mark.parametrize("error", [RuntimeError("boom"), KeyError("x"), RecursionError(), UnicodeError("odd")])
async def test_an_unexpected_exception_never_gets_out(
    tmp_path: Path, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    NoteInvocation.act = Failing.with_error(error)
    result = await executor(tmp_path, "allow").execute("note", {"text": "x"})
    assert result.error is not None and result.error.code == "INTERNAL"
    assert type(error).__name__ in caplog.text


async def test_an_unknown_tool_and_bad_arguments_are_results(tmp_path: Path) -> None:
    house = executor(tmp_path)
    unknown = await house.execute("nope", {})
    assert unknown.error is not None and unknown.error.type == "ToolNotFoundError"
    for arguments in (None, [], "text", 5, {"text": None}, {}):
        result = await house.execute("note", arguments)  # type: ignore[arg-type]  # that is the point
        assert result.error is not None and result.error.type == "ValidationError", arguments


async def test_notes_tell_what_was_mended(tmp_path: Path) -> None:
    result = await executor(tmp_path, "allow").execute("note", {"text": "x", "mood": "good"})
    assert result.ok and "mood was dropped" in result.notes[0]
    assert "[note: unknown parameter mood was dropped]" in result.for_model()
    strict = await executor(tmp_path, "allow", forgiving=False).execute("note", {"text": "x", "mood": "good"})
    assert strict.error is not None and strict.error.type == "ValidationError"


async def test_a_call_full_of_mistakes_is_answered_in_few_words(tmp_path: Path) -> None:
    strays: JsonObject = {f"k{number}": 1 for number in range(10_000)}
    result = await executor(tmp_path, "allow").execute("note", {"text": "x", "y" * 100_000: 1, **strays})
    assert result.ok and result.notes[-1] == "9901 more notes are left out"
    assert len(result.for_model()) < 20_000
    strict = await executor(tmp_path, "allow", forgiving=False).execute("note", {"text": "x", **strays})
    assert strict.error is not None and "; and 9950 more errors. It takes text" in strict.error.message
    assert len(strict.error.details["errors"]) == 10_000  # type: ignore[arg-type]  # a list


class AnyData(ToolData):
    value: JsonValue


async def test_data_that_is_no_json_is_left_out_of_the_result_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep: JsonValue = 1
    for _ in range(2_000):
        deep = [deep]

    async def execute(self: NoteInvocation, signal: AbortSignal, update: UpdateOutput | None = None) -> ToolResult:
        return ToolResult(llm_content="done", return_display="done", data=AnyData.model_construct(value=deep))

    monkeypatch.setattr(NoteInvocation, "execute", execute)
    result = (await executor(tmp_path, "allow").execute("note", {"text": "x"})).on_stdout()
    assert result["ok"] and result["llmContent"] == "done" and "data" not in result
    assert "the data is left out" in str(result["notes"])


async def test_what_a_tool_shows_is_cut_like_what_the_model_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def execute(self: NoteInvocation, signal: AbortSignal, update: UpdateOutput | None = None) -> ToolResult:
        return ToolResult(llm_content="done", return_display="line\n" * 100_000)

    monkeypatch.setattr(NoteInvocation, "execute", execute)
    result = await executor(tmp_path, "allow").execute("note", {"text": "x"})
    assert result.return_display.count("\n") < 2_100
    assert "lines omitted" in result.return_display


async def test_long_results_are_cut_and_kept_whole_elsewhere(tmp_path: Path) -> None:
    class Store:
        async def save(self, name: str, text: str) -> Path:
            (tmp_path / "full.txt").write_text(text)
            return tmp_path / "full.txt"

    bus = MessageBus()
    context = ToolContext(bus=bus, limits=Limits(result_chars=100, result_lines=5))
    house = executor(tmp_path, "allow", outputs=Store(), context=context)
    text = "\n".join(f"line {number}" for number in range(50))
    result = await house.execute("note", {"text": text})
    assert result.truncated and "lines omitted" in result.llm_content
    assert result.llm_content.rstrip().endswith(f"Full text: {tmp_path / 'full.txt'}")
    assert (tmp_path / "full.txt").read_text() == f"noted {text}"


async def test_a_review_runs_nothing_and_names_every_fault(tmp_path: Path) -> None:
    house = executor(tmp_path)
    review = await house.review("note", {"text": "hello"})
    assert (review.decision, review.risk, review.errors) == ("ask", Risk.MEDIUM, ())
    assert "policy rule 1" in review.reason
    faulty = await house.review("note", {"text": 5, "path": 6})
    assert faulty.decision == "deny" and "text" in faulty.errors[0] and "path" in faulty.errors[0]
    assert NoteInvocation.ran == [] and house.bus.pending() == []


async def test_each_call_is_recorded_without_its_arguments(tmp_path: Path) -> None:
    records: list[CallRecord] = []
    house = executor(tmp_path, on_record=records.append)
    answer_confirmations(house.bus, Answer(False))
    await house.execute("note", {"text": "a secret"}, call_id="c1")
    assert [each.event.value for each in records] == ["decided", "settled", "finished"]
    record = records[-1]
    assert (record.call_id, record.tool, record.answer, record.error_type) == (
        "c1",
        "note",
        "denied",
        "ConfirmationDenied",
    )
    assert len(record.arguments_digest) == 64 and "a secret" not in repr(record)


@pytest.mark.parametrize("where", ["asked about", "waiting for its turn", "running", "stubborn", "excerpted"])
async def test_a_call_that_asyncio_itself_cancels_has_its_end_recorded(tmp_path: Path, where: str) -> None:
    records: list[CallRecord] = []
    reached = asyncio.Event()

    async def wait(*_: object) -> Path:
        reached.set()
        await asyncio.Event().wait()
        raise AssertionError

    async def stubborn(*_: object) -> None:
        try:
            await wait()
        finally:
            reached.clear()
            reached.set()

    class Store:
        save = staticmethod(wait)

    asks = where == "asked about"
    options = {"outputs": Store(), "context": ToolContext(bus=MessageBus(), limits=Limits(result_chars=10))}
    house = executor(tmp_path, "ask" if asks else "allow", on_record=records.append, **options)
    before = CallOrder()
    order = CallOrder(before) if where == "waiting for its turn" else None
    if where in ("running", "stubborn"):
        NoteInvocation.act = lambda *_: (wait if where == "running" else stubborn)()
    task = asyncio.ensure_future(house.execute("note", {"text": "long enough"}, call_id="c1", order=order))
    while not (reached.is_set() or house.bus.pending() or (order is not None and order._asked.is_set())):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    ends = [record for record in records if record.event.value == "finished"]
    assert [(end.call_id, end.tool, end.error_type) for end in ends] == [("c1", "note", "OperationCancelled")]
    assert records[-1] is ends[0] and house.bus.pending() == []


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from(["tick", "answer", "abort", "cancel"]), max_size=12), st.text(), st.booleans())
def test_every_started_call_has_exactly_one_end_in_the_record(steps: list[str], text: str, asks: bool) -> None:
    """Whatever ends it: a result, a denial, the abort signal, asyncio's own cancellation, in any order."""

    async def scenario() -> None:
        records: list[CallRecord] = []
        registry = ToolRegistry()
        registry.register(note_tool())
        policy = PolicyEngine(PolicyConfig(rules=[PolicyRule(tool="note", action=Decision.ASK if asks else "allow")]))
        house = ToolExecutor(
            registry, policy, MessageBus(), Workspace("."), True, ExecutorOptions(on_record=records.append)
        )
        controller = AbortController()
        task = asyncio.ensure_future(house.execute("note", {"text": text}, controller.signal))
        for step in steps:
            match step:
                case "answer":
                    for request in house.bus.pending():
                        response = ConfirmationResponse(id=request.id, approved=len(text) % 2 == 0)
                        house.bus.respond_to_confirmation(response)
                case "abort":
                    controller.abort()
                case "cancel":
                    task.cancel()
                case _:
                    await asyncio.sleep(0)
        controller.abort()
        await asyncio.wait({task})
        events = [record.event.value for record in records]
        assert events.count("finished") == (1 if events else 0) and events[-1:] in (["finished"], [])
        assert events or task.cancelled(), "nothing on record only where the call was given up before it started"

    asyncio.run(scenario())


async def test_calls_of_one_reply_are_asked_together_and_run_in_order(tmp_path: Path) -> None:
    house = executor(tmp_path)
    order, tasks = CallOrder(), []
    for text in "123":
        tasks.append(asyncio.ensure_future(house.execute("note", {"text": text}, order=order)))
        order = CallOrder(order)
    while len(house.bus.pending()) < 3:
        await asyncio.sleep(0)
    requests = house.bus.pending()
    assert [request.details.args["text"] for request in requests] == ["1", "2", "3"]
    for request in (requests[2], requests[1]):
        house.bus.respond_to_confirmation(ConfirmationResponse(id=request.id, approved=True))
    await asyncio.sleep(0.01)
    assert NoteInvocation.ran == []
    house.bus.respond_to_confirmation(ConfirmationResponse(id=requests[0].id, approved=True))
    assert all(result.ok for result in await asyncio.gather(*tasks))
    assert NoteInvocation.ran == ["1", "2", "3"]


async def test_questions_stand_in_the_order_of_the_calls_whatever_takes_long(tmp_path: Path) -> None:
    house = executor(tmp_path)

    class Slow(NoteInvocation):
        async def check(self, signal: AbortSignal) -> ToolResult | None:
            await asyncio.sleep(0.05 if self.params.text == "1" else 0)
            return None

    house.registry.register(replace(note_tool(), invocation=Slow))
    first = CallOrder()
    second = CallOrder(first)
    tasks = [
        asyncio.ensure_future(house.execute("note", {"text": text}, order=order))
        for text, order in (("1", first), ("2", second))
    ]
    while len(house.bus.pending()) < 2:
        await asyncio.sleep(0.001)
    assert [request.details.args["text"] for request in house.bus.pending()] == ["1", "2"]
    for request in house.bus.pending():
        house.bus.cancel_request(request.id)
    await asyncio.gather(*tasks)


async def test_a_call_behind_others_is_judged_again_when_its_turn_comes(tmp_path: Path) -> None:
    """What was a new file when the reply came may be one to overwrite once the call before it has run."""
    exists = PolicyCondition(param="$exists", operator=Operator.EQUALS, value="true")
    policy = PolicyEngine(
        PolicyConfig(
            default_action=Decision.ALLOW, rules=[PolicyRule(tool="note", action=Decision.ASK, conditions=[exists])]
        )
    )
    house = executor(tmp_path)
    house.policy = policy

    class Writing(NoteInvocation):
        def facts(self) -> CallFacts:
            return CallFacts(Effect.WRITES, virtual={"$exists": bool(self.ran)})

    house.registry.register(replace(note_tool(), invocation=Writing))
    first = CallOrder()
    tasks = [
        asyncio.ensure_future(house.execute("note", {"text": text}, order=order))
        for text, order in (("1", first), ("2", CallOrder(first)))
    ]
    while not house.bus.pending():
        await asyncio.sleep(0.001)
    assert NoteInvocation.ran == ["1"]
    assert [request.details.args["text"] for request in house.bus.pending()] == ["2"]
    house.bus.respond_to_confirmation(ConfirmationResponse(id=house.bus.pending()[0].id, approved=False))
    results = await asyncio.gather(*tasks)
    assert [result.ok for result in results] == [True, False] and NoteInvocation.ran == ["1"]


async def test_each_of_800_open_questions_is_delivered_to_each_subscriber_once(tmp_path: Path) -> None:
    subscribers: list[object] = []

    class CountingBus(MessageBus):
        def subscribe(self, callback: Subscriber) -> Callable[[], None]:
            subscribers.append(callback)
            return super().subscribe(callback)

    asking = executor(tmp_path, bus=CountingBus())
    bus, heard = asking.bus, list[Notice]()
    bus.subscribe(heard.append)
    calls = [asyncio.ensure_future(asking.execute("note", {"text": str(number)})) for number in range(800)]
    async with asyncio.timeout(30):
        while len(bus.pending()) < len(calls):
            await asyncio.sleep(0)
    for request in bus.pending():
        bus.respond_to_confirmation(ConfirmationResponse(id=request.id, approved=False))
    assert {(await call).error.type for call in calls} == {"ConfirmationDenied"}  # type: ignore[union-attr]  # a denied call has an error
    assert len(subscribers) == 1 and len(heard) == 2 * len(calls)


async def test_a_question_beyond_the_bound_is_refused_without_being_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(permission, "MAX_OPEN", 2)
    house = executor(tmp_path)
    calls = [asyncio.ensure_future(house.execute("note", {"text": str(number)})) for number in range(3)]
    done, waiting = await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
    [result] = [call.result() for call in done]
    assert result.error is not None and "wait for an answer already" in result.error.message
    assert len(waiting) == len(house.bus.pending()) == 2
    for request in house.bus.pending():
        house.bus.respond_to_confirmation(ConfirmationResponse(id=request.id, approved=True))
    assert all(result.error is None for result in await asyncio.gather(*waiting))
