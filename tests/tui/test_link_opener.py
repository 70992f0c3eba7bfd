"""Opening links with the person's own programs: which, with what, and what is asked first."""

from __future__ import annotations

from pathlib import Path

import pytest

from ollm_tui.testing.dashboard_harness import DashboardHarness, open_dashboard
from ollm_tui.tui.link_opener import browser_command
from ollm_tui.tui.links import FileLink, WebLink
from ollm_tui.tui.screens.question_screens import YesNoScreen
from tests.tui.pilot import Stage, stage, wait_until
from tests.tui.test_external_editor import editor, lent, told

__all__ = ["lent"]

SAME = WebLink("https://example.org/a?b=c&d=$(id)", "https://example.org/a?b=c&d=$(id)")


def browser(folder: Path, monkeypatch: pytest.MonkeyPatch, ending: str = "") -> Path:
    """A browser that notes its words, and what it has of our terminal."""
    program, noted = folder / "browser", folder / "opened"
    program.write_text(
        f'#!/bin/sh\nfor fd in 0 1 2; do [ -t $fd ] && echo tty; done >>"{noted}"\n'
        f'printf "%s\\n" "$@" >>"{noted}"; {ending}\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("BROWSER", f"'{program}' --new")
    return noted


async def opened(here: Stage | DashboardHarness, noted: Path) -> list[str]:
    await wait_until(here.pilot, lambda: noted.exists() and noted.read_text().count("\n") >= 2)
    return noted.read_text().splitlines()


async def test_an_address_that_stands_in_the_text_opens_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted = browser(tmp_path, monkeypatch)
    async with stage() as here:
        here.app.opener.open(SAME)
        assert await opened(here, noted) == ["--new", SAME.url]


@pytest.mark.parametrize("key", ["y", "escape"])
async def test_an_address_behind_another_text_is_shown_whole_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    noted = browser(tmp_path, monkeypatch)
    async with stage() as here:
        here.app.opener.open(WebLink("https://xn--pple-43d.com/" + "x" * 150, "https://\u0430pple.com/\u202e"))
        await wait_until(here.pilot, lambda: isinstance(here.app.screen, YesNoScreen))
        await here.settle()
        assert "xn--pple-43d.com" in here.text and "\u202e" not in here.text
        assert here.text.count("x" * 30) >= 2, "not cut"
        await here.press("enter")
        assert isinstance(here.app.screen, YesNoScreen)
        await here.arm()
        await here.press(key)
        await wait_until(here.pilot, lambda: not isinstance(here.app.screen, YesNoScreen))
        if key == "y":
            assert (await opened(here, noted))[1].startswith("https://xn--pple-43d.com/")
        else:
            assert not noted.exists()


async def test_a_browser_that_fails_or_is_missing_leaves_the_address_on_the_clipboard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser(tmp_path, monkeypatch, "exit 3")
    async with stage(size=(200, 40), notifications=True) as here:
        here.app.opener.open(SAME)
        await told(here, f"browser ended with 3, so {SAME.url} is on the clipboard.")
        assert here.app.clipboard == SAME.url
    for name in ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY", "WSL_DISTRO_NAME"):
        monkeypatch.delenv(name, raising=False)
    async with stage(size=(200, 40), notifications=True) as here:
        here.app.opener.open(SAME)
        await told(here, "There is no browser here")
        assert here.app.clipboard == SAME.url


def test_which_browser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("xdg-open", "mine"):
        (tmp_path / name).touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert browser_command({"BROWSER": "mine -n", "DISPLAY": ":0"}, "linux") == ["mine", "-n"]
    assert browser_command({"BROWSER": "none", "DISPLAY": ":0"}, "linux") == ["xdg-open"]
    assert browser_command({"BROWSER": "'"}, "linux") is None
    assert browser_command({}, "darwin") == ["open"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("vim", ["+7", "{file}"]),
        ("code", ["--goto", "{file}:7:3"]),
        ("hx", ["{file}:7:3"]),
        ("unknown", ["{file}"]),
    ],
)
async def test_a_file_opens_in_the_editor_at_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lent: list[str], name: str, words: list[str]
) -> None:
    program = editor(tmp_path, f'printf "%s\\n" "$@" > {tmp_path}/given', monkeypatch)
    program.rename(tmp_path / name)
    monkeypatch.setenv("VISUAL", str(tmp_path / name))
    file = tmp_path / "-rf a.py"
    file.touch()
    async with stage() as here:
        here.app.opener.open(FileLink(file, 7, 3))
        await wait_until(here.pilot, lambda: lent == ["lent", "back"])
        assert (tmp_path / "given").read_text().splitlines() == [word.format(file=file) for word in words]


async def test_a_link_of_a_real_shell_is_opened_and_put_into_the_prompt_by_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lent: list[str]
) -> None:
    editor(tmp_path, f'printf "%s\\n" "$@" > {tmp_path}/given', monkeypatch)
    monkeypatch.setenv("SHELL", "/bin/sh")
    workspace = tmp_path / "ws"
    (workspace / "src").mkdir(parents=True)
    (workspace / "src" / "a.py").touch()
    async with open_dashboard(workspace) as here:
        await here.send("!printf 'src/%s:12: wrong\\n' a.py")
        await here.wait_for("src/a.py:12: wrong")
        await here.press("f5")
        view = here.app.dashboard.term.view
        assert view is not None
        await here.wait_until(lambda: view.reader is not None)
        view.find("a.py:12: wrong")
        await here.wait_for("Enter opens a.py:12")
        await here.press("enter")
        await here.wait_until(lambda: lent == ["lent", "back"])
        assert (tmp_path / "given").read_text().splitlines() == ["--wait", str(workspace / "src" / "a.py")]
        await here.press("p")
        await here.wait_until(lambda: here.app.dashboard.prompt.text == "src/a.py:12 ")
        assert here.app.dashboard.prompt.has_focus
