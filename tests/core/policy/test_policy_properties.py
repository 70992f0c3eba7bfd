"""Properties of rules, conditions and questions beside those of the engine's own tests."""

from __future__ import annotations

import asyncio
import re
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from ollm_tui.core import (
    AbortController,
    ConfirmationDetails,
    MessageBus,
    PolicyCondition,
    PolicyConfig,
    PolicyEngine,
    PolicyRule,
    Risk,
    ToolExecutor,
    ToolRegistry,
    Workspace,
)
from ollm_tui.core.base.errors import ConfirmationCancelled, ConfirmationTimeout
from ollm_tui.core.base.results import JsonObject
from ollm_tui.core.bus.notices import ConfirmationRequested, Notice
from ollm_tui.core.policy.rule_set import RuleSet, condition_values, js_string
from ollm_tui.core.policy.rules import Decision, Operator, RuleSource
from ollm_tui.core.tools.shell import SHELL
from ollm_tui.core.tools.write_file import WRITE_FILE

# -- conditions -----------------------------------------------------------------------------------------------------------

PATTERNS = st.sampled_from(
    ["a+b", "^x", "y$", "(?i)Q", "[0-9]{2}", r"\.py$", "", r"\bz", "(?P<n>k)", "(?P<n>m)", r"\Qa.c"]
)
TEXTS = st.one_of(
    st.text(max_size=12), st.sampled_from(["aab", "xyz", "q7", "42", "m.py", "a.c", "abc", "k", "\udcff.py"])
)


@given(st.lists(PATTERNS, min_size=1, max_size=6), st.lists(TEXTS, min_size=1, max_size=4))
@settings(max_examples=100, deadline=None)
def test_a_rule_among_many_matches_as_it_does_alone(patterns: list[str], texts: list[str]) -> None:
    """Property 35: what saves work when many rules have expressions never changes an answer."""

    def rules(each: list[str]) -> RuleSet:
        return RuleSet([
            (
                PolicyRule(
                    tool="t",
                    action=Decision.DENY,
                    conditions=[PolicyCondition(param="p", operator=Operator.MATCHES, value=pattern)],
                ),
                RuleSource("user", number),
            )
            for number, pattern in enumerate(each, 1)
        ])  # fmt: skip

    together, alone = rules(patterns), [rules([pattern]) for pattern in patterns]
    for text in [*texts, *texts]:
        seen = condition_values({"p": text})
        first = next((number for number, each in enumerate(alone, 1) if each.deciding("t", seen)), None)
        found = together.deciding("t", seen)
        assert (found.source.number if found else None) == first


@pytest.mark.parametrize(("value", "text"), [
    (0.00001, "0.00001"), (0.000001, "0.000001"), (1e-7, "1e-7"), (1.5e-7, "1.5e-7"), (123456.789, "123456.789"), (1e16, "10000000000000000"),
    (1.2345678901234567e20, "123456789012345670000"), (1e21, "1e+21"), (1.5e300, "1.5e+300"), (-0.0, "0"), (-2.5e-9, "-2.5e-9"),
    (2**53, "9007199254740992"), (2**53 + 1, "9007199254740992"), (10**21, "1e+21"), (10**400, "Infinity"), (float("nan"), "NaN"),
    (float("-inf"), "-Infinity"), (100, "100"), (0.1, "0.1"), (4.35, "4.35"), (5e-324, "5e-324"),
])  # fmt: skip
def test_numbers_read_as_in_javascript(value: float, text: str) -> None:
    assert js_string(value) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
@settings(max_examples=100)
def test_a_number_as_text_reads_back_as_the_same_number(value: float) -> None:
    text = js_string(value)
    assert float(text) == value
    assert re.fullmatch(r"-?(0|[1-9]\d*)(\.\d*[1-9])?(e[+-][1-9]\d*)?", text)
    assert ("e" in text) is (value != 0 and not 1e-6 <= abs(value) < 1e21)


@given(st.dictionaries(st.text(max_size=4), st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=3),
       lambda each: st.lists(each, max_size=3) | st.dictionaries(st.text(max_size=2), each, max_size=2)), max_size=4),
       st.text(min_size=1, max_size=4), st.sampled_from(list(Operator)[:3]), st.text(max_size=3), st.sampled_from(list(Decision)))  # fmt: skip
def test_a_condition_on_what_was_not_given_never_holds(
    params: dict[str, JsonValue], name: str, operator: Operator, value: str, action: Decision
) -> None:
    """Property 35: whatever the action, and whatever else there is."""
    rule = PolicyRule(tool="*", action=action, conditions=[PolicyCondition(param=name, operator=operator, value=value)])
    others = {key: each for key, each in params.items() if key != name}
    for default in Decision:
        assert PolicyEngine(PolicyConfig(default_action=default, rules=[rule])).evaluate("t", others) is default
        nested = {**others, name: {"inside": value}}
        assert PolicyEngine(PolicyConfig(default_action=default, rules=[rule])).evaluate("t", nested) is default


# -- questions ------------------------------------------------------------------------------------------------------------

NAMES = st.text(
    st.characters(codec="utf-8", exclude_categories=["C"], exclude_characters="/"), min_size=1, max_size=12
).filter(lambda name: name.strip(". ") == name and name not in (".", "..") and name[0] not in '~"')


@given(NAMES, st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=40).filter(str.strip))
@settings(max_examples=100, deadline=None)
def test_a_question_carries_what_a_person_needs(tmp_path_factory: pytest.TempPathFactory, name: str, text: str) -> None:
    """Property 37: name, description, risk, locations, and the whole action in the preview."""
    root = tmp_path_factory.mktemp("q")

    async def scenario() -> None:
        registry, bus, asked = ToolRegistry(), MessageBus(), list[ConfirmationRequested]()
        registry.register(SHELL)
        registry.register(WRITE_FILE)

        def deny(notice: Notice) -> None:
            if isinstance(notice, ConfirmationRequested):
                asked.append(notice)
                asyncio.get_running_loop().call_soon(bus.cancel_request, notice.confirmation.request.id)

        bus.subscribe(deny)
        policy = PolicyEngine(PolicyConfig(default_action=Decision.ASK))
        executor = ToolExecutor(registry, policy, bus, Workspace(root), attended=True)
        calls: list[tuple[str, JsonObject]] = [
            ("write_file", {"path": name, "content": text}),
            ("shell", {"command": text}),
        ]
        for tool, arguments in calls:
            await executor.execute(tool, arguments)
            details = asked.pop().confirmation.request.details
            assert details.tool_name == tool and details.description and details.risk in Risk
            assert details.locations == ((name,) if tool == "write_file" else (".",))
            assert details.preview is not None
            if details.preview.kind == "command":
                assert details.preview.command == text

    asyncio.run(scenario())


class Hands:
    """A clock moved by hand."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def monotonic(self) -> float:
        return self.seconds

    def now(self) -> datetime:
        return datetime(2026, 1, 31, tzinfo=UTC) + timedelta(seconds=self.seconds)


DETAILS = ConfirmationDetails(tool_name="note", description="Note", risk=Risk.LOW)


@given(st.lists(st.floats(0.1, 1000), min_size=1, max_size=6), st.floats(0, 1200))
@settings(max_examples=100, deadline=None)
def test_exactly_the_questions_whose_time_is_over_time_out(limits: list[float], passed: float) -> None:
    """Property 40, for any limits and any time that passes."""

    async def scenario() -> None:
        clock = Hands()
        bus = MessageBus(clock)
        tasks = [asyncio.ensure_future(bus.request_confirmation(DETAILS, timeout=limit)) for limit in limits]
        await asyncio.sleep(0)
        clock.seconds = passed
        bus.expire_due()
        if over := [task for task, limit in zip(tasks, limits, strict=True) if limit <= passed]:
            await asyncio.wait(over, timeout=5)
        for task, limit in zip(tasks, limits, strict=True):
            assert task.done() is (limit <= passed)
            if task.done():
                with pytest.raises(ConfirmationTimeout, match="timed out"):
                    task.result()
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(scenario())


@given(st.lists(st.booleans(), min_size=1, max_size=8))
@settings(max_examples=100, deadline=None)
def test_a_signal_withdraws_its_own_questions_and_no_others(aborted: list[bool]) -> None:
    """Property 42, for any set of questions."""

    async def scenario() -> None:
        bus = MessageBus()
        controllers = [AbortController() for _ in aborted]
        tasks = [asyncio.ensure_future(bus.request_confirmation(DETAILS, each.signal, None)) for each in controllers]
        await asyncio.sleep(0)
        for controller, abort in zip(controllers, aborted, strict=True):
            if abort:
                controller.abort()
        if over := [task for task, abort in zip(tasks, aborted, strict=True) if abort]:
            await asyncio.wait(over, timeout=5)
        assert len(bus.pending()) == aborted.count(False)
        for task, abort in zip(tasks, aborted, strict=True):
            assert task.done() is abort
            if abort:
                with pytest.raises(ConfirmationCancelled):
                    task.result()
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(scenario())
