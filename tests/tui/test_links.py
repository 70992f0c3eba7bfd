"""Links in foreign text: what is one, where it leads, and what is never one."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from ollm_tui.tui.links import (
    Candidate,
    FileLink,
    FileName,
    WebLink,
    candidate_at,
    candidates_in,
    existing_file,
    hyperlink,
    prompt_text,
)


def shown(text: str) -> list[str]:
    return [text[found.start : found.end] for found in candidates_in(text)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("see https://a.b/c_(d).", ["https://a.b/c_(d)"]),
        ("(https://a.b/c?d=1#e), [HTTP://A.b]", ["https://a.b/c?d=1#e", "HTTP://A.b"]),
        ("│https://a.b│ 「https://例え.jp/日本」。", ["https://a.b", "https://例え.jp/日本"]),
        ("src/a.py:12: error src/b.rs:4:5 c:x d:1:", ["src/a.py:12", "src/b.rs:4:5", "d:1"]),
        ('  File "/tmp/a b.py", line 3, in f', ['File "/tmp/a b.py", line 3']),
        ("at 10:20:30, 3:4 is no name", ["10:20:30", "3:4"]),  # which no file has
        ("javascript:alert(1) file:///etc/passwd ftp://a.b data:text/html,x mailto:a@b", []),
        ("https:// http://[ https://-a- http://a:99999/ http://user:secret@a.b/ http://google.com@evil.example/", []),
        ("http://a\u202eb.c/ http://a.b/\u200bc x\u202ey.py:3", []),
        ("https://a⟨U+202E⟩b.c/ x⟨U+202E⟩y.py:3 https://a.b/⟨U+200B⟩c", []),
        ("curl https://a.b⏎next", ["https://a.b"]),
        ("https://a.b/src/a.py:12", ["https://a.b/src/a.py:12"]),
    ],
)
def test_what_looks_like_a_link(text: str, found: list[str]) -> None:
    assert shown(text) == found


@pytest.mark.parametrize(
    "line",
    ["a" * 9_000, "a:" * 5_000, "https://" * 1_200, "https://a.b/" + ")" * 9_000, 'File "' * 1_500, "1:" * 5_000],
)
def test_a_hostile_line_is_read_once(line: str) -> None:
    """The work is bounded: no mark of the text is looked at again for each that follows it."""
    assert all(found.end <= 8_192 for found in candidates_in(line))


def test_the_link_at_a_character() -> None:
    text = "a https://x.y b.py:3"
    assert candidate_at(text, 0) is None
    assert candidate_at(text, 2) == Candidate(2, 13, WebLink("https://x.y/", "https://x.y"))
    assert candidate_at(text, 13) is None
    assert candidate_at(text, 19) == Candidate(14, 20, FileName("b.py", 3))


@pytest.mark.parametrize(
    ("address", "text", "url", "differs"),
    [
        ("https://a.b/c", "https://a.b/c", "https://a.b/c", False),
        ("https://A.b", "https://A.b", "https://a.b/", False),
        ("https://a.b/c", "the docs", "https://a.b/c", True),
        ("https://evil.example/", "https://bank.example/", "https://evil.example/", True),
        ("https://\u0430pple.com/", "https://\u0430pple.com/", "https://xn--pple-43d.com/", True),
        ("http://2130706433/", "http://2130706433/", "http://127.0.0.1/", True),
    ],
)
def test_an_address_is_canonical_and_known_to_differ_from_its_text(
    address: str, text: str, url: str, differs: bool
) -> None:
    link = hyperlink(address, text)
    assert isinstance(link, WebLink)
    assert (link.url, link.differs) == (url, differs)


def test_hyperlinks_of_programs_lead_to_the_web_and_to_files_of_this_machine_only() -> None:
    assert hyperlink(f"file://{socket.gethostname()}/a%20b", "a b") == FileName("/a b")
    assert hyperlink("file:///a", "x") == FileName("/a")
    for uri in ("file://elsewhere/a", "mailto:a@b", "javascript:x", "file:///a%0ab", "https://a@b/", "http://[", "x"):
        assert hyperlink(uri, "x") is None


def test_only_regular_files_below_the_folders_are_links(tmp_path: Path) -> None:
    own, workspace, outside = (tmp_path / name for name in ("own", "ws", "outside"))
    for folder in (own, workspace, outside):
        folder.mkdir()
        (folder / "a.py").touch()
    (workspace / "only.py").touch()
    (own / "out.py").symlink_to(outside / "a.py")
    (own / "circle").symlink_to(own / "circle")
    os.mkfifo(own / "pipe")
    folders = [own, workspace]
    assert existing_file(FileName("a.py", 3, 4), folders) == FileLink(own / "a.py", 3, 4)
    assert existing_file(FileName("only.py", 1), folders) == FileLink(workspace / "only.py", 1)
    assert existing_file(FileName("../ws/only.py"), folders) == FileLink(workspace / "only.py")
    assert existing_file(FileName(str(workspace / "a.py")), [own]) is None
    for name in ("../outside/a.py", "out.py", "circle", "pipe", ".", "none.py", "a\x00b", "a" * 5_000):
        assert existing_file(FileName(name, 1), folders) is None


def test_the_words_for_the_prompt(tmp_path: Path) -> None:
    assert prompt_text(WebLink("https://a.b/", "docs"), tmp_path) == "https://a.b/"
    assert prompt_text(FileLink(tmp_path / "src" / "a.py", 3, 4), tmp_path) == "src/a.py:3:4"
    assert prompt_text(FileLink(Path("/elsewhere/b.py"), 0), tmp_path) == "/elsewhere/b.py"
