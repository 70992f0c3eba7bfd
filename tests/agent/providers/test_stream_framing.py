"""Framing: however the bytes of a stream are cut into chunks, the same lines and events come out."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ollm_tui.agent.providers.reply_reader import EventDecoder, FramingError, LineDecoder, ServerEvent


@st.composite
def chunked(draw: st.DrawFn, content: st.SearchStrategy[bytes]) -> tuple[bytes, list[bytes]]:
    """Bytes and one way of cutting them, empty chunks included."""
    whole = draw(content)
    cuts = sorted(draw(st.lists(st.integers(0, len(whole)), max_size=8)))
    return whole, [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]


def events_of(chunks: list[bytes]) -> list[ServerEvent]:
    decoder = EventDecoder()
    return [event for chunk in chunks for event in decoder.feed(chunk)] + list(decoder.close())


def lines_of(chunks: list[bytes]) -> list[str]:
    decoder = LineDecoder()
    return [line.data for chunk in chunks for line in decoder.feed(chunk)] + [line.data for line in decoder.close()]


SSE_LIKE = st.lists(
    st.sampled_from([b"data: ", b"data:", b"event: x", b"error: {}", b": c", b"\n", b"\r\n", b"\r", b"\xef\xbb\xbf"])
    | st.binary(max_size=6)
    | st.text(max_size=6).map(str.encode),
    max_size=20,
).map(b"".join)


@given(chunked(SSE_LIKE))
def test_any_chunking_gives_the_same_events(sample: tuple[bytes, list[bytes]]):
    whole, chunks = sample
    assert events_of(chunks) == events_of([whole])


@given(chunked(st.binary(max_size=80) | st.text(max_size=60).map(str.encode)))
def test_any_chunking_gives_the_same_lines(sample: tuple[bytes, list[bytes]]):
    whole, chunks = sample
    assert lines_of(chunks) == lines_of([whole])


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]))), st.sampled_from(["\n", "\r\n", "\r"]))
def test_json_sent_as_events_arrives_whole_with_every_kind_of_line_end(values: list[str], end: str):
    body = "".join(f"data: {json.dumps(value)}{end}{end}" for value in values)
    assert [json.loads(event.data) for event in events_of([body.encode()])] == values


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]))))
def test_json_sent_as_lines_arrives_whole(values: list[str]):
    body = "".join(json.dumps(value, ensure_ascii=False) + "\n" for value in values)
    assert [json.loads(line) for line in lines_of([body.encode()])] == values


def test_several_data_lines_are_one_event():
    assert events_of([b"event: note\ndata: a\ndata: b\n\n"]) == [ServerEvent("note", "a\nb")]


def test_comments_and_unknown_fields_are_no_events():
    assert events_of([b": keep-alive\n\nid: 7\nretry: 10\n\n"]) == []


def test_a_last_event_without_a_blank_line_is_still_given():
    assert events_of([b"data: [DONE]"]) == [ServerEvent("message", "[DONE]")]


@pytest.mark.parametrize("decoder", [LineDecoder(10), EventDecoder(10)])
def test_a_line_without_end_is_refused_before_memory_fills(decoder: LineDecoder | EventDecoder):
    with pytest.raises(FramingError, match="more than 10 bytes"):
        for _ in range(5):
            list(decoder.feed(b"data:abcd"))


def test_many_short_data_lines_of_one_event_are_bounded_too():
    decoder = EventDecoder(100)
    with pytest.raises(FramingError):
        for _ in range(50):
            list(decoder.feed(b"data: x\n"))


def test_what_came_before_a_line_too_long_is_given():
    decoder, seen = LineDecoder(10), []
    with pytest.raises(FramingError):
        seen.extend(decoder.feed(b""))
        for line in decoder.feed(b"one\ntwo\n" + b"x" * 11):
            seen.append(line.data)
    assert seen == ["one", "two"]
