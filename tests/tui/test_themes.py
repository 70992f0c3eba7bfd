"""Themes from files: ours are sound, and one bad file takes nobody else down."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.color import Color

from ollm_tui.options import Options
from ollm_tui.tui.bindings import key_errors, key_groups
from ollm_tui.tui.first_frame import FirstFrame, first_frame
from ollm_tui.tui.themes import ThemeError, load_themes, packaged_theme, read_theme, theme_folders

GOOD = 'name = "mine"\ndark = false\n\n[colors]\nprimary = "#112233"\n'


def test_our_own_themes_are_sound_and_one_is_light() -> None:
    for folder in theme_folders()[:2]:
        for path in folder.glob("*.toml"):
            assert read_theme(path).name == path.stem
    themes = load_themes(theme_folders()[:2])
    assert themes.errors == ()
    assert {"ollm-dark", "ollm-light"} <= set(themes.valid)
    assert not themes.valid["ollm-light"].dark


@pytest.mark.parametrize("name", ["ollm-dark", "ollm-light", "ollm-contrast"])
def test_text_can_be_read_on_its_ground(name: str) -> None:
    theme = packaged_theme(name)
    ground = Color.parse(theme.background or "")
    for value in (theme.foreground, theme.primary, theme.accent, theme.error, theme.warning, theme.success):
        assert contrast(Color.parse(value or ""), ground) >= 4.5


def contrast(ink: Color, ground: Color) -> float:
    lighter, darker = sorted((luminance(ink), luminance(ground)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def luminance(color: Color) -> float:
    parts = [part / 255 for part in (color.r, color.g, color.b)]
    red, green, blue = (part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ('name = "mine"\n[colors]\nprimary = "#12"\n', 3, "no colour"),
        ('name = "mine"\n[colors]\nprimary = "blue"\naccent = "[/]"\n', 4, "no colour"),
        ('name = "mine"\n[colors\n', 2, "not TOML"),
        ('name = "mine"\n', None, "colors"),
        ('name = "mine"\nfont = "x"\n[colors]\nprimary = "blue"\n', 2, "font"),
        ('name = "[red]"\n[colors]\nprimary = "blue"\n', 1, "name"),
        (GOOD + '[variables]\nborder = "nope"\n', 7, "border"),
    ],
)
def test_a_fault_names_file_line_and_remedy(tmp_path: Path, text: str, line: int | None, said: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(ThemeError) as caught:
        read_theme(path)
    error = caught.value.error
    assert (error.source, error.line) == (str(path), line)
    assert said in error.message
    assert error.remedy


def test_each_bad_file_is_told_alone_and_the_good_ones_are_used(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(GOOD)
    (tmp_path / "b.toml").write_text("[colors")
    (tmp_path / "c.toml").write_bytes(b"\xff\xfe")
    themes = load_themes((tmp_path, tmp_path / "is-not-there"))
    assert set(themes.valid) == {"mine"}
    assert [Path(error.source).name for error in themes.errors] == ["b.toml", "c.toml"]


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=200))
def test_whatever_a_file_says_it_is_a_theme_or_a_fault(text: str) -> None:
    from ollm_tui.tui.theme_file import validated

    found = validated(text, Path("x.toml"))
    assert isinstance(found, dict) or str(found).startswith("x.toml")


def test_the_theme_of_the_first_frame_comes_from_flag_variable_or_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "config.toml"
    path.write_text('[ui]\ntheme = "ollm-light"\nmouse = false\n')
    assert first_frame(Options(config_file=path)) == FirstFrame("ollm-light", mouse=False)
    monkeypatch.setenv("OLLM_UI__THEME", "nord")
    assert first_frame(Options(config_file=path)).theme == "nord"
    assert first_frame(Options(config_file=path, theme="dracula", mouse=True)) == FirstFrame("dracula", mouse=True)
    monkeypatch.delenv("OLLM_UI__THEME")
    path.write_text("[ui")
    assert first_frame(Options(config_file=path)) == FirstFrame()
    assert packaged_theme("no-such-theme").name == "ollm-dark"


def test_every_binding_has_an_id_of_its_own_and_a_tooltip() -> None:
    bindings = [binding for _, group in key_groups() for binding in group]
    ids = [binding.id for binding in bindings]
    assert len(ids) == len(set(ids))
    assert all(binding.tooltip for binding in bindings)


def test_unknown_ids_and_empty_keys_are_told() -> None:
    assert key_errors({"queue.review": "f9"}, "config.toml") == ()
    errors = key_errors({"queue.revew": "f9", "app.help": " "}, "config.toml")
    assert [error.source for error in errors] == ["config.toml", "config.toml"]
    assert "queue.revew" in errors[0].message
