"""A window without the focus calls the person back, once for each thing that waits, and never with it."""

from __future__ import annotations

from textual.events import AppBlur, AppFocus

from ollm_tui.tui.notifications import Notifier
from ollm_tui.tui.protocol import updates
from ollm_tui.tui.values import Activity, StatusWord
from tests.tui.pilot import question, stage


def told(*words: StatusWord, how: str = "all", **environment: str) -> str:
    written: list[str] = []
    notifier = Notifier(written.append, environment)
    notifier.how = how  # type: ignore[assignment]  # as settings give it
    notifier.focus_changed(False)
    for word in words:
        notifier.follow(word)
    return "".join(written)


def test_each_terminal_is_told_in_the_way_it_knows() -> None:
    waits = "ollm-tui: a question waits"
    title = f"\x1b[22;2t\x1b]2;{waits}\a"
    assert told(StatusWord.WAITING) == f"\a{title}\x1b]9;{waits}\a"
    assert told(StatusWord.WAITING, VTE_VERSION="7600") == f"\a{title}\x1b]777;notify;ollm-tui;{waits}\a"
    assert told(StatusWord.WAITING, TMUX="/tmp/x") == told(StatusWord.WAITING, how="bell") == "\a"
    assert told(StatusWord.WAITING, how="never") == ""
    assert told(StatusWord.THINKING, StatusWord.RUNNING, StatusWord.STREAMING) == ""
    assert told(StatusWord.THINKING, StatusWord.ERROR, StatusWord.IDLE).count("the turn failed") == 2


async def test_a_question_and_the_end_of_a_turn_are_said_while_the_window_is_elsewhere() -> None:
    async with stage() as here:
        written: list[str] = []
        here.app.notifier.write = written.append
        await here.post(updates.ActivityUpdate(Activity.RUNNING, "shell"))
        await here.show_queue(question())
        await here.show_queue()
        assert not written
        here.app.post_message(AppBlur())
        await here.settle()
        await here.show_queue(question())
        assert "a question waits" in "".join(written)
        await here.show_queue(question(), question(2))
        assert "".join(written).count("\x1b]9;") == 1
        await here.show_queue()
        await here.post(updates.ActivityUpdate(Activity.IDLE))
        assert "the turn has ended" in written[-1] and "\x1b[23;2t" not in written
        here.app.post_message(AppFocus())
        await here.settle()
        assert written[-1] == "\x1b[23;2t"
