"""Text of models, files, programs and servers never reaches markup, and never the terminal raw."""

from __future__ import annotations

import pytest

from ollm_tui.config import ConfigError
from ollm_tui.core.bus.confirmation import CommandPreview, TextPreview
from ollm_tui.core.bus.states import CallOutcome, CallState, ConfirmationState
from ollm_tui.core.shell.status import CommandPhase, CommandStatus
from ollm_tui.core.todos.todo import TodoStatus
from ollm_tui.tui.protocol import updates
from ollm_tui.tui.values import (
    Activity,
    AnswerEntry,
    CallEntry,
    EntriesChanged,
    NoteEntry,
    NoteKind,
    SessionStatus,
    UserEntry,
)
from tests.tui.pilot import Stage, question, stage, todo

HOSTILE = [
    "[/foo]",
    "[/]",
    "[#zzz]a[/]",
    "[link=file:///x]b[/link]",
    "[@click=app.quit]boo[/]",
    "a [ b ] c",
    "\x1b]52;c;ZXZpbA==\x07",
    "\x1b[2K\x1b[1A\x9b31m",
    "rtl \u202e gnp.exe \u2066 x",
    "zero\u200bwidth \ufeff \U000e0041",
    "a\rb\x00c\x7f",
    "e" + "\u0301" * 60,
]
FORBIDDEN = [chr(code) for code in (*range(32), *range(0x7F, 0xA0)) if chr(code) != "\n"] + list(
    "\u202e\u2066\u200b\ufeff"
)


@pytest.mark.parametrize("text", HOSTILE, ids=[ascii(text)[:24] for text in HOSTILE])
async def test_it_goes_through_every_pane_and_comes_out_as_itself(text: str) -> None:
    async with stage(notifications=True) as here:
        await fill(here, text)
        await safe(here)
        await here.press("ctrl+o")
        await safe(here)
        item = question(
            tool=text,
            description=text,
            reason=text,
            locations=(text,),
            arguments={text: text},
            preview=CommandPreview(command=text, cwd=text, parts=(text, text), warnings=(text,)),
        )
        await here.show_queue(item)
        await here.press("f8")
        assert here.modal is not None
        await safe(here)
        await here.press("tab")
        await safe(here)
        await here.show_queue(question(state=ConfirmationState.EXPIRED, tool=text, preview=TextPreview(text=text)))
        await safe(here)


async def fill(here: Stage, text: str) -> None:
    await here.press("x")
    await here.post(
        updates.StatusUpdate(SessionStatus(text, text, text, denied_because=text, branch=text)),
        updates.ConversationUpdate(
            EntriesChanged(
                (
                    UserEntry("u", text),
                    AnswerEntry("a", text, f"{text}\n\n```{text}\n{text}\n```\n&#x202e; [x]({text})", reasoning=text),
                    CallEntry(
                        "c", text, text, CallState.DONE, CallOutcome.FAILED, text, text, notes=(text,), verdict=text
                    ),
                    CallEntry("call-1", text, text, CallState.WAITING, arguments=text),
                    NoteEntry("n", text, NoteKind.ERROR),
                )
            )
        ),
        updates.TodosUpdate((todo("t", text, TodoStatus.PENDING),)),
        updates.CommandsUpdate((CommandStatus("c9", text, CommandPhase.EXITED, 1),)),
        updates.ToastUpdate(text, failed=True),
        updates.ConfigErrorsUpdate((ConfigError(text, text, text, 3),)),
        updates.ActivityUpdate(Activity.FAILED, error=text),
    )


async def safe(here: Stage) -> None:
    await here.settle()
    assert here.app.is_running
    drawn = here.text
    assert not [character for character in FORBIDDEN if character in drawn]
    assert here.app._exception is None


async def test_brackets_are_shown_and_not_eaten() -> None:
    async with stage() as here:
        await fill(here, "a [ b ] [bold]c[/bold]")
        assert here.text.count("a [ b ] [bold]c[/bold]") >= 4


async def test_a_link_of_a_model_is_not_clickable_and_shows_where_it_leads() -> None:
    async with stage() as here:
        text = "see [the docs](https://evil.example/x)"
        await here.post(updates.ConversationUpdate(EntriesChanged((AnswerEntry("a", "m", text),))))
        assert "https://evil.example/x" in here.text


async def test_a_pasted_escape_sequence_loses_its_escapes() -> None:
    async with stage() as here:
        from textual.events import Paste

        here.app.post_message(Paste("a\x1b]52;c;eA==\x07b\r\nc"))
        await here.settle()
        assert here.app.dashboard.prompt.text == "a]52;c;eA==b\nc"
