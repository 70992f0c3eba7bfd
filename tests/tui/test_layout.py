"""Panes at every size: what is in sight, where the focus goes, and what survives a resize."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from ollm_tui.config import ConfigError
from ollm_tui.core.shell.status import CommandPhase, CommandStatus
from ollm_tui.core.todos.todo import TodoStatus
from ollm_tui.tui.layout import Arrangement, Pane
from ollm_tui.tui.protocol import updates
from ollm_tui.tui.protocol.intents import SendMessage
from ollm_tui.tui.screens.help_screen import HelpScreen
from ollm_tui.tui.values import (
    Activity,
    AnswerEntry,
    ConfirmationQueueSnapshot,
    EntriesChanged,
    SessionStatus,
    UnfinishedWork,
)
from tests.tui.pilot import SHELL, agents_command, question, stage, terminal_of, todo, wait_until


async def test_the_wide_layout_shows_every_pane_at_once() -> None:
    async with stage((120, 40)) as here:
        for title in ("Chat", "Queue", "Todo", "Terminal", "Prompt"):
            assert title in here.text
        assert here.text.splitlines()[0].startswith(" IDLE | qwen3-coder:30b")


async def test_the_narrow_layout_shows_one_pane_and_f6_goes_through_all_of_them() -> None:
    async with stage((80, 24)) as here:
        await here.post(updates.TodosUpdate((todo("t1", "write the readme", TodoStatus.PENDING),)))
        assert "[Chat]" in here.text
        assert "write the readme" not in here.text
        seen: list[str] = []
        for _ in range(5):
            await here.press("f6")
            seen.append(next((pane.value for pane in Pane if here.app.dashboard.arrangement.tab is pane), ""))
            if here.app.dashboard.arrangement.tab is Pane.TODO:
                assert "write the readme" in here.text
        assert seen == ["chat", "queue", "todo", "term", "chat"]
        assert here.app.dashboard.prompt.has_focus


async def test_resizing_keeps_the_draft_and_the_focus() -> None:
    async with stage((120, 40)) as here:
        await here.press(*"half a thought")
        for width, height in ((80, 24), (60, 20), (39, 9), (120, 40)):
            await here.pilot.resize_terminal(width, height)
            await here.settle()
            assert here.app.dashboard.prompt.text == "half a thought"
        assert here.app.dashboard.prompt.has_focus
        await here.press("!")
        assert here.app.dashboard.prompt.text == "half a thought!"


async def test_focus_in_a_pane_that_a_resize_hides_comes_back_to_the_prompt() -> None:
    async with stage((120, 40)) as here:
        await here.show_queue(question())
        await here.press("escape", "f6", "f6")
        assert here.app.dashboard.queue.has_focus_within
        here.app.dashboard.rearrange(tab=Pane.CHAT)
        await here.pilot.resize_terminal(80, 24)
        await here.settle()
        assert here.app.dashboard.prompt.has_focus


async def test_below_40_by_10_one_line_says_so_and_approvals_are_still_reachable() -> None:
    async with stage((39, 9)) as here:
        assert "Window too small (need 40x10)" in here.text
        await here.press("x")
        await here.show_queue(question(description="Edit it"))
        await here.press("f8")
        assert here.modal is not None
        await here.press("end")
        await here.arm()
        await here.press("y")
        assert [one.approved for one in here.decisions] == [True]


@pytest.mark.parametrize("size", [(40, 10), (60, 12), (80, 24), (100, 30), (200, 60)])
async def test_the_confirmation_has_its_keys_in_sight_at_every_size(size: tuple[int, int]) -> None:
    async with stage(size) as here:
        await here.show_queue(question())
        assert here.modal is not None
        assert "Esc" in here.text
        await here.arm()
        await here.press("end")
        here.modal.box.draw()
        await here.settle()
        assert "Approve once" in here.text or "y yes" in here.text


async def test_zoom_gives_one_pane_the_screen_and_ends_again() -> None:
    async with stage((120, 40)) as here:
        await here.post(updates.TodosUpdate((todo("t1", "task", TodoStatus.PENDING),)))
        await here.press("f6", "f6", "f6", "f10")
        assert here.app.dashboard.todo.has_focus_within
        assert here.app.dashboard.todo.size.width > 100
        assert "Terminal" not in here.text
        await here.press("f10")
        assert "Terminal" in here.text


async def test_the_banner_stands_above_the_prompt_where_the_queue_is_out_of_sight() -> None:
    async with stage((80, 24)) as here:
        await here.press("x")
        deadline = here.clock.seconds + 47
        await here.show_queue(question(1, deadline=deadline, timeout=60.0), question(2))
        assert "2 approvals waiting, next expires in 0:47" in here.text
        assert here.text.splitlines()[0].startswith(" WAITING 2")


async def test_the_state_is_the_first_word_and_the_stronger_one_wins() -> None:
    async with stage() as here:
        status = here.app.dashboard.status
        assert status.text.startswith(" IDLE")
        await here.post(updates.ActivityUpdate(Activity.RUNNING, "shell"))
        here.clock.seconds += 12
        here.app.dashboard.updates.tick()
        assert status.text.startswith(" RUNNING shell 12s")
        await here.press("x")
        await here.show_queue(question())
        assert status.text.startswith(" WAITING 1")
        await here.post(updates.ActivityUpdate(Activity.FAILED, error="http://127.0.0.1:11434 refused"))
        assert status.text.startswith(" ERROR")
        assert "http://127.0.0.1:11434 refused" in here.text
        assert "[r] retry" in here.text


async def test_no_timer_runs_while_nothing_happens() -> None:
    async with stage() as here:
        ticker = here.app.dashboard.updates._ticker
        assert ticker is not None
        assert not ticker._active.is_set()
        await here.post(updates.ActivityUpdate(Activity.THINKING))
        assert ticker._active.is_set()
        await here.post(updates.ActivityUpdate(Activity.IDLE))
        assert not ticker._active.is_set()


async def test_a_key_is_remapped_by_the_id_of_its_binding() -> None:
    async with stage() as here:
        await here.post(updates.SettingsUpdate(updates.ScreenSettings(keys={"app.help": "f2"}, theme="ollm-dark")))
        await here.press("f1")
        assert not isinstance(here.app.screen, HelpScreen)
        await here.press("f2")
        assert isinstance(here.app.screen, HelpScreen)
        assert "F2" in here.text


async def test_the_help_is_written_from_the_bindings() -> None:
    async with stage((120, 60)) as here:
        await here.press("f1")
        assert "Decide on the oldest open question" in here.text
        assert re.search(r"\^J Shift\+Enter +Begin a new line", here.text)  # no key touches what it does
        await here.press("escape")
        assert not isinstance(here.app.screen, HelpScreen)


async def test_quitting_asks_while_something_is_live() -> None:
    async with stage() as here:
        here.backend.live = UnfinishedWork(("A turn is running.",))
        await here.press("ctrl+q")
        assert "A turn is running." in here.text
        await here.press("enter")
        assert "A turn is running." in here.text, "Enter does nothing"
        await here.press("escape")
        assert "A turn is running." not in here.text
        assert here.app.is_running


async def test_enter_in_a_burst_sends_what_was_typed_before_it_and_keeps_what_comes_after() -> None:
    async with stage() as here:
        await here.burst(*"one", "ctrl+j", *"two", "enter", *"three")
        await wait_until(here.pilot, lambda: here.app.dashboard.prompt.text == "three")
        assert [sent.text for sent in here.backend.of(SendMessage)] == ["one\ntwo"]


async def test_up_and_down_walk_through_what_was_sent() -> None:
    async with stage() as here:
        prompt = here.app.dashboard.prompt
        for text in ("one", "two"):
            await here.press(*text, "enter")
        assert prompt.text == ""
        await here.press("d", "up")
        assert prompt.text == "two"
        await here.press("up")
        assert prompt.text == "one"
        await here.press("down", "down")
        assert prompt.text == "d", "the draft comes back"


async def test_a_command_of_the_agent_gets_a_tab_with_its_state() -> None:
    async with stage() as here:
        await here.post(updates.CommandsUpdate((CommandStatus("c1", "pytest -q"),)))
        assert "agent: pytest -q RUN" in here.text
        await here.post(updates.CommandsUpdate((CommandStatus("c1", "pytest -q", CommandPhase.EXITED, 2),)))
        assert "pytest -q exit 2" in here.text


def test_an_arrangement_never_leaves_the_screen_empty() -> None:
    for columns in range(40, 200, 20):
        for rows in range(10, 60, 7):
            for tab in Pane:
                for zoomed in (None, *Pane):
                    arrangement = Arrangement(columns, rows, tab, zoomed)
                    assert any(arrangement.in_sight(pane) for pane in Pane)


async def test_several_faults_are_one_short_word_over_the_panes() -> None:
    faults = tuple(ConfigError("/a/config.toml", "unknown key x", "Remove it.", number) for number in (1, 2, 3))
    assert str(faults[0]) == "/a/config.toml:1: unknown key x. Remove it."
    async with stage() as here:
        await here.post(updates.ConfigErrorsUpdate(faults))
        assert [told.message for told in here.app._notifications] == ["3 errors in your files: see the chat."]


async def test_panes_are_a_word_each_while_empty_and_get_their_room_with_something_in_them() -> None:
    async with stage((120, 40)) as here:
        dashboard = here.app.dashboard
        words = here.text.splitlines()[1]
        assert words.rstrip().split("   ") == [
            "  Queue: nothing to approve",
            "Todo: none yet",
            "Terminal: ^T your shell",
        ]
        assert dashboard.chat.outer_size.width == 120
        await here.show_queue(question())
        await here.press("escape")
        assert dashboard.chat.outer_size.width == 82 and "#1" in here.text
        await here.show_queue()
        assert dashboard.chat.outer_size.width == 82, "what is read stays where it is"
        await here.press(*"more", "enter")
        assert dashboard.chat.outer_size.width == 120
        await here.press("f6", "f6")
        assert dashboard.queue.has_focus_within and "Nothing to approve" in here.text
        await here.press("escape", "f9")
        assert dashboard.todo.display and not dashboard.term.display
        await here.press("f9")
        assert here.text.splitlines()[1].split() == ["Terminal:", "^T", "your", "shell"]


async def test_the_status_line_gives_up_the_least_important_first() -> None:
    async with stage((120, 40)) as here:
        status = SessionStatus("qwen3-coder:30b", "/home/me/projects/a-long-name/of/a/workspace", "ask", branch="main*")
        used = replace(status, tokens_used=3_100, tokens_limit=8_000, tokens_per_second=41.6)
        await here.post(updates.StatusUpdate(used))
        jobs = [agents_command(f"serve {number}", id=f"j{number}", background=True) for number in range(3)]
        over = replace(jobs[2], phase=CommandPhase.EXITED, exit_code=0)
        await here.post(updates.CommandsUpdate((*jobs[:2], over, agents_command("pytest"))))
        model, workspace = "IDLE | qwen3-coder:30b", status.workspace
        kept = {
            140: f"{model} | ctx 3.1k/8.0k 38% | 42 t/s | 2 jobs | {workspace} | main* | policy: ask",
            125: f"{model} | ctx 3.1k/8.0k 38% | 2 jobs | {workspace} | main* | policy: ask",
            100: f"{model} | ctx 3.1k/8.0k 38% | 2 jobs | main* | policy: ask",
            80: f"{model} | ctx 38% | 2 jobs | main* | policy: ask",
            60: f"{model} | ctx 38% | 2 jobs | policy: ask",
            50: f"{model} | 2 jobs | policy: ask",
            42: f"{model} | policy: ask",
        }
        for width, words in kept.items():
            await here.pilot.resize_terminal(width, 40)
            await here.settle()
            assert here.text.splitlines()[0].strip() == words
        await here.pilot.resize_terminal(140, 40)
        await here.post(updates.ActivityUpdate(Activity.STREAMING, "37 t/s"))
        assert here.text.splitlines()[0].count("t/s") == 1
        await here.post(updates.CommandsUpdate(tuple(jobs[:1])))
        assert "| 1 job |" in here.text.splitlines()[0]
        await here.post(updates.CommandsUpdate(()))
        assert "job" not in here.text.splitlines()[0]


async def test_a_broad_window_has_the_terminal_beside_the_conversation_and_prose_stays_readable() -> None:
    async with stage((200, 60)) as here:
        dashboard = here.app.dashboard
        await here.post(
            updates.CommandsUpdate((agents_command(),)),
            updates.ConversationUpdate(EntriesChanged((AnswerEntry("a1", "m", "word " * 100),))),
        )
        await wait_until(here.pilot, lambda: dashboard.term.display)
        chat, term = dashboard.chat.region, dashboard.term.region
        assert term.x >= chat.right and term.height > 50 and chat.height > 40
        assert min(chat.width, term.width) >= 70
        assert max(len(row[: chat.width].rstrip()) for row in here.text.splitlines() if "word word" in row) <= 102
        await here.press("ctrl+t", "ctrl+right_square_bracket", "plus")
        assert dashboard.arrangement.terminal_rows is None, "it has all the rows there are"
        await here.pilot.resize_terminal(150, 60)
        await here.settle()
        assert dashboard.term.region.y >= dashboard.chat.region.bottom
        await here.pilot.resize_terminal(200, 20)
        await here.settle()
        assert dashboard.term.region.x >= dashboard.chat.region.right, "a low one has room for it as well"


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_what_is_told_covers_neither_the_draft_nor_the_queue(size: tuple[int, int]) -> None:
    async with stage(size=size, notifications=True) as here:
        await here.post(updates.QueueUpdate(ConfirmationQueueSnapshot((question(),))))
        await here.press("escape", *("word " * 14))
        here.app.notify("A notice\nof\nsome\nlines", markup=False)
        await wait_until(here.pilot, lambda: "A notice" in here.text)
        assert ("word " * 14).rstrip() in here.text
        assert size[0] < 100 or "Queue (1)" in here.text


async def test_the_terminal_grows_and_shrinks_by_keys_behind_the_prefix() -> None:
    async with stage() as here:
        await terminal_of(here, SHELL)
        term = here.app.dashboard.term
        before = term.region.height
        await here.burst("ctrl+right_square_bracket", "plus", "plus", "plus")
        await wait_until(here.pilot, lambda: term.region.height > before + 2)
        grown = term.region.height
        await here.burst("minus", "minus", "escape")
        await wait_until(here.pilot, lambda: before < term.region.height < grown)
        assert here.app.dashboard.chat.region.bottom <= term.region.y
