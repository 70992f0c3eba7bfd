"""The help: every key, and the documentation that is installed with the program."""

from __future__ import annotations

import pytest

from ollm_tui.docs import list_topics
from ollm_tui.testing.dashboard_harness import wait_until
from ollm_tui.tui.screens.help_screen import HelpScreen
from tests.tui.pilot import Stage, stage


async def shows(here: Stage, text: str) -> None:
    await wait_until(here.pilot, lambda: text in here.text, what=lambda: f"{text!r} on\n{here.text}")


async def test_it_begins_with_all_keys_and_what_they_do_but_no_ids() -> None:
    async with stage() as here:
        await here.press("f1")
        await shows(here, "extending/tool")
        assert "Decide on the oldest open question" in here.text
        assert "queue.review" not in here.text


async def test_the_topics_of_the_documentation_are_read_beside_their_list() -> None:
    async with stage() as here:
        await here.press("f1")
        await shows(here, "extending/tool")
        assert all(f" {topic.name} " in here.text for topic in list_topics())
        await here.press("tab", "down", "down", "down")
        await shows(here, "Where settings come from")
        assert "Decide on the oldest" not in here.text and " glossary " in here.text
        await here.press("enter", "pagedown")
        assert "Where settings come from" not in here.text
        await here.press("tab", "up", "up", "up")
        await shows(here, "Decide on the oldest open question")


async def test_a_narrow_window_shows_the_list_or_the_text() -> None:
    async with stage(size=(80, 24)) as here:
        await here.press("f1")
        await shows(here, "Find and run any action")
        assert "glossary" not in here.text
        await here.press("tab", "down", "down", "down", "down", "down")
        await shows(here, "glossary")
        assert "Find and run any action" not in here.text
        await here.press("enter")
        await shows(here, "One word for one thing")
        assert "decisions/store" not in here.text


@pytest.mark.parametrize("key", ["escape", "f1", "q"])
@pytest.mark.parametrize("before", [[], ["tab"]], ids=["text", "topics"])
async def test_one_key_closes_it(key: str, before: list[str]) -> None:
    async with stage() as here:
        await here.press("f1", *before)
        assert isinstance(here.app.screen, HelpScreen)
        await here.press(key)
        assert not isinstance(here.app.screen, HelpScreen)


async def test_a_new_page_begins_at_its_top() -> None:
    async with stage() as here:
        await here.press("f1")
        await shows(here, "extending/tool")
        await here.press("end")
        assert "Find and run any action" not in here.text and "Keys can be changed" in here.text
        await here.press("tab", "down")
        await shows(here, "Architecture")
