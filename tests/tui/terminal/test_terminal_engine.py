"""The engine between a thread that reads a program and the view that draws it."""

from __future__ import annotations

import threading

from ollm_tui.tui.terminal.emulator import osc
from ollm_tui.tui.terminal.terminal_engine import FEED_SLICE, MAX_REPLY, TerminalEngine
from tests.tui.terminal.screens import whole_text


def test_it_wakes_the_view_once_until_a_frame_was_taken() -> None:
    engine = TerminalEngine(20, 4)
    woken: list[int] = []
    engine.on_wake = lambda: woken.append(1)
    for _ in range(50):
        engine.feed(b"x")
    assert len(woken) == 1
    engine.frame_taken()
    engine.feed(b"y")
    assert len(woken) == 2


def test_replies_and_events_come_in_the_feeding_thread_without_the_lock() -> None:
    engine = TerminalEngine(20, 4)
    heard: list[object] = []

    def lock_is_free() -> bool:
        free = engine.lock.acquire(timeout=2)
        if free:
            engine.lock.release()
        return free

    def note(what: object) -> None:
        other = threading.Thread(target=lambda: heard.append((what, lock_is_free())))
        other.start()
        other.join()

    engine.on_reply = note
    engine.on_event = note
    engine.feed(b"\x1b[5n\x1b[c\x1b]2;hi\x07")
    assert heard == [(b"\x1b[0n\x1b[?62;4;22c", True), (osc.TitleSet("hi"), True)]


def test_a_flood_of_questions_and_bells_is_answered_in_measure() -> None:
    engine = TerminalEngine(20, 4)
    replies: list[bytes] = []
    events: list[osc.TerminalEvent] = []
    engine.on_reply = replies.append
    engine.on_event = events.append
    engine.feed(b"\x1b[c\x07" * 6_000)
    slices = 6_000 * 4 // FEED_SLICE + 1
    assert len(replies) == slices
    assert all(len(reply) <= MAX_REPLY for reply in replies)
    assert events == [osc.BellRang()] * slices


def test_output_that_costs_much_is_parsed_in_small_slices_and_other_output_in_large_ones_again() -> None:
    engine = TerminalEngine(300, 100)
    sizes: list[int] = []
    feed = engine.stream.feed

    def noted(data: bytes) -> None:
        sizes.append(len(data))
        feed(data)

    engine.stream.feed = noted
    engine.feed("日\x1b[9999b".encode() * 2_000)
    assert sizes[0] == FEED_SLICE > 2 * sizes[1]
    engine.feed(b"line\r\n" * 20_000)
    assert sizes[-2] == FEED_SLICE
    assert engine.parse_errors == 0


def test_several_threads_may_feed() -> None:
    engine = TerminalEngine(40, 4, scrollback_lines=5_000)
    threads = [threading.Thread(target=engine.feed, args=(f"{n}\r\n".encode() * 200,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lines = [line for line in whole_text(engine) if line]
    assert sorted(lines) == sorted([str(n) for n in range(4)] * 200)
    assert engine.parse_errors == 0


def test_a_fault_in_the_parser_is_counted_and_the_next_output_shown() -> None:
    engine = TerminalEngine(20, 4)

    def broken(_body: str) -> None:
        raise ValueError("a defect")

    engine.screen.operating_system_command = broken  # stands for any defect
    engine.feed(b"a\x1b]0;x\x07lost")
    engine.feed(b"b")
    assert engine.parse_errors == 1
    assert whole_text(engine)[0] == "ab"


def test_the_text_kept_is_scrollback_and_screen() -> None:
    engine = TerminalEngine(10, 2)
    engine.feed("one  \r\n日本\r\nthree".encode())
    assert whole_text(engine) == ["one", "日本", "three"]
