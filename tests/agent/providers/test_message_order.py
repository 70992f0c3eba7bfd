"""Whatever a history looks like, what is sent is in the order every server accepts."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from ollm_tui.agent.providers.message_order import NO_RESULT, ordered, without_old_reasoning
from ollm_tui.agent.providers.provider import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)

IDS = st.text("abc", min_size=1, max_size=2)
MESSAGES = st.one_of(
    st.builds(SystemMessage, st.text(max_size=3)),
    st.builds(UserMessage, st.text(max_size=3)),
    st.builds(ToolMessage, IDS, st.just("ls"), st.text(max_size=3)),
    st.builds(
        AssistantMessage,
        st.text(max_size=3),
        st.lists(IDS, max_size=3, unique=True).map(lambda ids: tuple(ToolCall(i, "ls", {}) for i in ids)),
        st.text(max_size=3),
    ),
)


@given(st.lists(MESSAGES, max_size=12))
def test_any_history_is_brought_into_order(history: list[Message]):
    turns = list(ordered(history))
    assert not any(isinstance(message, SystemMessage) for message in turns[1:])
    for before, after in pairwise(turns):
        assert not (isinstance(before, UserMessage) and isinstance(after, UserMessage))
        if isinstance(after, AssistantMessage) and isinstance(before, AssistantMessage):
            assert before.tool_calls
    waiting: list[str] = []
    for message in turns:
        match message:
            case ToolMessage(call_id, _, content):
                assert call_id == waiting.pop(0)
                assert content
            case AssistantMessage(text, calls):
                assert not waiting
                assert text or calls
                waiting = [call.id for call in calls]
            case UserMessage(text) | SystemMessage(text):
                assert not waiting
                assert text
    assert not waiting


@given(st.lists(MESSAGES, max_size=8))
def test_ordering_twice_changes_nothing(history: list[Message]):
    once = ordered(history)
    assert ordered(once) == once


@given(st.lists(MESSAGES, max_size=8), st.text(min_size=1))
def test_every_word_of_the_person_arrives(history: list[Message], last: str):
    sent = "".join(m.text for m in ordered([*history, UserMessage(last)]) if isinstance(m, UserMessage))
    for message in (*history, UserMessage(last)):
        if isinstance(message, UserMessage):
            assert message.text in sent


def test_a_call_that_was_interrupted_has_a_result_that_says_so():
    turns = ordered([UserMessage("x"), AssistantMessage("", (ToolCall("a", "ls", {}),)), UserMessage("again")])
    assert turns[2] == ToolMessage("a", "ls", NO_RESULT)


def test_thinking_is_kept_for_the_running_turn_alone():
    history = (UserMessage("1"), AssistantMessage("a", (), "old"), UserMessage("2"), AssistantMessage("b", (), "new"))
    thoughts = [m.reasoning for m in without_old_reasoning(history) if isinstance(m, AssistantMessage)]
    assert thoughts == ["", "new"]


def test_a_result_belongs_to_the_call_before_it_even_where_ids_repeat():
    call = (ToolCall("call_1", "ls", {}),)
    history: list[Message] = []
    for content in ("first", "second"):
        history += [UserMessage("go"), AssistantMessage("", call), ToolMessage("call_1", "ls", content)]
    assert [m.content for m in ordered(history) if isinstance(m, ToolMessage)] == ["first", "second"]
