"""Tool calls are put together from pieces, read with care, and found in text only where they are calls."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ollm_tui.agent.providers.call_assembly import CallAssembler, CallFragment, CallIds
from ollm_tui.agent.providers.json_values import read_arguments
from ollm_tui.agent.providers.provider import (
    AssistantMessage,
    FinishReason,
    ReasoningDelta,
    TextDelta,
    ToolCall,
    ToolCallProgress,
    ToolCallReady,
)
from ollm_tui.agent.providers.reply_reader import ReplyReader
from ollm_tui.core.bus.states import Origin
from tests.agent.providers.collecting import asking

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(TEXT, JSON, max_size=4)


@given(OBJECTS)
def test_valid_arguments_are_never_changed(value: dict[str, object]):
    for raw in (json.dumps(value), json.dumps(value, ensure_ascii=False, indent=1), json.dumps(json.dumps(value))):
        read = read_arguments(raw)
        assert (read.value, read.error, read.repaired) == (value, None, False)


@given(OBJECTS, st.data())
def test_arguments_that_break_off_never_become_a_call(value: dict[str, object], data: st.DataObject):
    raw = json.dumps(value)
    part = raw[: data.draw(st.integers(1, len(raw) - 1))]
    assert read_arguments(part, cut=True).error is not None
    assert read_arguments(part).error is not None


@given(st.dictionaries(TEXT, TEXT | st.booleans() | st.none() | st.integers() | st.lists(TEXT), min_size=1))
def test_what_python_would_print_is_read_as_it_was_meant(value: dict[str, object]):
    read = read_arguments(repr(value))
    if read.error is None:
        assert read.value == value
    else:
        # only escapes that JSON does not know (\x07) may be refused
        assert "\\" in repr(value)


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        ("", {}),
        ("  ", {}),
        ("null", {}),
        ('""', {}),
        ("{'path': 'src',}", {"path": "src"}),
        ('{"a": [1, 2, ], }', {"a": [1, 2]}),
        ("{'say': 'it\\'s \"so\"'}", {"say": 'it\'s "so"'}),
        ("{'on': True, 'off': False, 'none': None}", {"on": True, "off": False, "none": None}),
        ('{"text": "two\nlines, True, \'x\',}"}', {"text": "two\nlines, True, 'x',}"}),
    ],
)
def test_nearly_json_is_read(raw: str, value: dict[str, object]):
    assert read_arguments(raw).value == value
    assert read_arguments(raw).error is None


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        ("[1]", "not an array"),
        ("5", "not a number"),
        ('{"a": NaN}', "not valid JSON"),
        ('{"a": 1e999}', "too large a number"),
        ('{"a": 1}{"a": 2}', "not valid JSON"),
        ("ls src", "not valid JSON"),
        ('{"a": "\\ud83d"}', "half a character"),
        ("[" * 100_000, "not valid JSON"),
        ('{"a": ' * 50_000, "not valid JSON"),
    ],
)
def test_what_is_no_object_is_a_fault_in_words(raw: str, words: str):
    read = read_arguments(raw)
    assert read.value == {}
    assert words in (read.error or "")


def test_hostile_arguments_are_refused_in_no_time():
    began = time.monotonic()
    for raw in ('"' + '\\"' * 100_000, "'" * 99_999, '{"' + ",}" * 100_000, "{'a':" * 30_000):
        assert read_arguments(raw).error is not None
    assert time.monotonic() - began < 20


@given(st.lists(st.tuples(st.sampled_from(["ls", "grep", "read_file"]), OBJECTS), max_size=4), st.data())
def test_calls_cut_into_pieces_come_back_whole_and_in_order(
    calls: list[tuple[str, dict[str, object]]], data: st.DataObject
):
    """By index, by id, or in a row without either, in pieces of any size."""
    style = data.draw(st.sampled_from(["index", "id", "both", "in a row"]))
    assembler = CallAssembler(CallIds())
    for number, (name, arguments) in enumerate(calls):
        raw, at = json.dumps(arguments), 0
        index = number if style in ("index", "both") else None
        call_id = f"c{number}" if style in ("id", "both") else None
        assembler.add(CallFragment(index, call_id, name, ""))
        while at < len(raw):
            size = data.draw(st.integers(1, len(raw)))
            assembler.add(CallFragment(index, call_id if style == "id" else None, None, raw[at : at + size]))
            at += size
    assert [(call.name, call.arguments) for call in assembler.finish()] == calls


def test_a_call_repeated_whole_in_the_last_piece_is_one_call():
    assembler = CallAssembler(CallIds())
    for _ in range(2):
        assembler.add(CallFragment(0, "a", "ls", '{"path": "src"}'))
    assert [call.arguments for call in assembler.finish()] == [{"path": "src"}]


def test_calls_all_numbered_zero_without_ids_stay_apart():
    assembler = CallAssembler(CallIds())
    for path in ("a", "b"):
        assembler.add(CallFragment(0, None, "ls", json.dumps({"path": path})))
    assert [call.arguments for call in assembler.finish()] == [{"path": "a"}, {"path": "b"}]


def test_an_id_the_conversation_has_used_is_replaced():
    history = [AssistantMessage("", (ToolCall("call_0", "ls", {}), ToolCall("call_2", "ls", {})))]
    ids = CallIds(history)
    taken = [ids.take("call_0"), ids.take("x"), ids.take("x"), ids.take(None)]
    assert taken[1] == "x"
    assert len({*taken, "call_0", "call_2"}) == 6


def test_a_model_that_never_stops_calling_is_stopped():
    assembler = CallAssembler(CallIds())
    for number in range(1_100):
        assembler.add(CallFragment(number, f"c{number}", "ls", "{}"))
    assert len(assembler.finish()) == 1_000


def test_a_call_without_a_name_is_a_fault():
    assembler = CallAssembler(CallIds())
    assembler.add(CallFragment(0, "a", None, '{"path": "src"}'))
    assert "no tool name" in (assembler.finish()[0].error or "")


def read_reply(*pieces: str, tools: bool = True) -> tuple[str, str, list[ToolCall]]:
    reader = ReplyReader(asking() if tools else asking(tools=()))
    events = [event for piece in pieces for event in reader.text(piece)]
    events += reader.finish(FinishReason.STOP)
    text = "".join(event.text for event in events if isinstance(event, TextDelta))
    thought = "".join(event.text for event in events if isinstance(event, ReasoningDelta))
    return text, thought, [event.call for event in events if isinstance(event, ToolCallReady)]


LS = '{"name": "ls", "arguments": {"path": "src"}}'
WRITTEN_CALLS = {
    LS: "",
    '{"name": "ls", "parameters": {"path": "src"}}': "",
    '{"type": "function", "function": {"name": "ls", "arguments": "{\\"path\\": \\"src\\"}"}}': "",
    f"[{LS}]": "",
    '{"tool_calls": [' + LS + "]}": "",
    f"Sure.\n```json\n{LS}\n```": "Sure.\n",
    f"```\n{LS}\n```\n": "",
    f"<tool_call>\n{LS}\n</tool_call>": "",
    f"Let me look. <tool_call>{LS}": "Let me look. ",
    f"[TOOL_CALLS] [{LS}]": "",
    '[TOOL_CALLS]ls[ARGS]{"path": "src"}': "",
    "<tool_call>\n<function=ls>\n<parameter=path>\nsrc\n</parameter>\n</function>\n</tool_call>": "",
    "<function=ls><parameter=path>src</parameter></function>": "",
    '{"name": "LS", "arguments": {"path": "src"}}': "",
}


@pytest.mark.parametrize("written", WRITTEN_CALLS)
def test_a_call_written_as_text_is_found_and_its_text_hidden(written: str):
    for pieces in ([written], list(written), [written[:9], written[9:]]):
        text, _, calls = read_reply(*pieces)
        assert [(call.name, call.arguments, call.origin) for call in calls] == [
            ("ls", {"path": "src"}, Origin.SALVAGED)
        ]
        assert text == WRITTEN_CALLS[written]


def test_several_calls_written_one_after_the_other_are_all_found():
    text, _, calls = read_reply(f"<tool_call>{LS}</tool_call>\n<tool_call>{LS}</tool_call>")
    assert (text, [call.id for call in calls]) == ("", ["call_1", "call_2"])


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "launch_rocket", "arguments": {}}',
        f"For example:\n```json\n{LS}\n```\nThat would list it.",
        f"{LS}\nis how a call looks.",
        f'print("{LS}")',
        '{"name": "Ada", "age": 36}',
        '```json\n{"name": "Ada", "age": 36}\n```',
        '```python\nprint({"name": "ls"})\n```',
        "if a < b: [1, 2]\n{\n  'x': 1\n}",
        "<tool_call>nonsense</tool_call>",
        "`code` and ``` fences",
        '{"name": "ls", "arguments": [1]}',
        "[TOOL_CALLS]",
        "",
        "\n\n",
    ],
)
def test_what_is_no_call_is_shown_as_it_was_written(text: str):
    for pieces in ([text], list(text)):
        shown, _, calls = read_reply(*pieces)
        assert calls == []
        assert shown == text


def test_a_proper_call_leaves_what_is_written_beside_it_as_text():
    reader = ReplyReader(asking())
    events = list(reader.text(LS)) + list(reader.call_fragment(CallFragment(0, "a", "grep", "{}")))
    events += reader.finish(FinishReason.TOOL_CALLS)
    assert [event.call.name for event in events if isinstance(event, ToolCallReady)] == ["grep"]
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == LS


def test_a_written_call_that_the_limit_cut_off_is_text():
    reader = ReplyReader(asking())
    written = "<function=shell>\n<parameter=command>\nrm -r build\n</parameter>\n<parameter=cwd>"
    events = [*reader.text(written), *reader.finish(FinishReason.LENGTH)]
    assert not any(isinstance(event, ToolCallReady) for event in events)
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == written


def test_progress_of_a_long_call_is_told_now_and_then():
    reader = ReplyReader(asking())
    pieces = ["{", *['"x": 1, '] * 200]
    told = [event for piece in pieces for event in reader.call_fragment(CallFragment(0, "a", "ls", piece))]
    assert all(isinstance(event, ToolCallProgress) and event.name == "ls" for event in told)
    assert 5 <= len(told) <= 10
    assert [event.characters for event in told] == sorted(event.characters for event in told)


def test_without_tools_nothing_is_held_back_or_taken_for_a_call():
    assert read_reply(*LS, tools=False) == (LS, "", [])


def test_a_call_longer_than_what_is_held_back_is_shown():
    long = '{"name": "write_file", "arguments": {"path": "a", "content": "' + "x" * 9000 + '"}}'
    text, _, calls = read_reply(*[long[at : at + 100] for at in range(0, len(long), 100)])
    assert (text, calls) == (long, [])


MARKS = ("{", '"name"', ": ", '"ls"', ", ", '"arguments"', "{}", "}", "```", "json", "\n", "[", "]", LS)
TAGS = ("<tool_call>", "</tool_call>", "[TOOL_CALLS]", "<function=ls>", "</function>", "<think>", "</think>")
SALVAGE_LIKE = st.lists(st.sampled_from(MARKS + TAGS) | TEXT, max_size=12).map("".join)


@given(SALVAGE_LIKE, st.data())
def test_any_chunking_of_text_gives_the_same_text_thoughts_and_calls(text: str, data: st.DataObject):
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    whole, thought, calls = read_reply(text)
    assert read_reply(*pieces) == (whole, thought, calls)
    if not calls and not thought and "think>" not in text:
        assert whole == text


def test_ordinary_text_is_shown_as_it_comes():
    reader = ReplyReader(asking())
    assert [list(reader.text(piece)) for piece in ("Hel", "lo. [1] a < b", "\n")] == [
        [TextDelta("Hel")],
        [TextDelta("lo. [1] a < b")],
        [TextDelta("\n")],
    ]


def test_characters_that_were_cut_in_two_are_joined_and_lone_halves_replaced():
    assert read_reply("a\ud83d", "\ude00b")[0] == "a\U0001f600b"
    assert read_reply("a\ud83d", "b\ude00", "\ud83d")[0] == "a\ufffdb\ufffd\ufffd"


def test_a_megabyte_of_brackets_is_shown_in_no_time():
    began = time.monotonic()
    text = '{"name": [<\n' * 80_000
    assert read_reply(text)[0] == text
    assert time.monotonic() - began < 20


def test_a_call_knows_how_much_of_the_answer_came_before_it() -> None:
    reader = ReplyReader(asking())
    events = list(reader.text("First I look. "))
    events += reader.call_fragment(CallFragment(0, "a", "ls", "{}"))
    events += reader.text("Then I read. ")
    events += reader.call_fragment(CallFragment(1, "b", "ls", "{}"))
    events += reader.finish(FinishReason.TOOL_CALLS)
    text = "".join(event.text for event in events if isinstance(event, TextDelta))
    calls = [event.call for event in events if isinstance(event, ToolCallReady)]
    assert [text[: call.text_before] for call in calls] == ["First I look. ", "First I look. Then I read. "]
