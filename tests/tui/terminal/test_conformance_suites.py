"""The readers of other terminals' suites: what they check of a screen, and that a wrong screen is counted."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance import libvterm, packages, xterm_fixtures
from tests.conformance.counts import Counts

SCRIPT = r"""
INIT
!Words
PUSH "one\r\n"x2
  putglyph 0x6f 1 0,0
  ?cursor = 2,0
  ?screen_row 0 = "one"
$SEQ 0 1: ?screen_row \# = "one"
PUSH "\e[1;31mA\e[m\xEF\xBC\x90"
  ?pen bold = off
  ?screen_chars 2,0,3,80 = 0x41,0xff10
  ?screen_cell 2,0 = {0x41} width=1 attrs={B} fg=rgb(224,0,0) bg=rgb(0,0,0)
  ?screen_cell 2,1 = {0xff10} width=2 attrs={} fg=rgb(240,240,240) bg=rgb(0,0,0)
PUSH "\e[5n"
  output "\e[0n"
RESIZE 30,100
PUSH "\e[99;99H"
  ?cursor = 29,98
RESET
WANTSCREEN b
PUSH "A"x102
  ?lineinfo 0 =
  ?lineinfo 1 = cont
  ?screen_eol 1,1 = 0
  ?screen_eol 1,2 = 1
PUSH "\e[4mB"
  ?screen_attrs_extent 1,1 = 1,0-2,1
  ?screen_attrs_extent 1,2 = 1,2-2,2
SETDEFAULTCOL rgb(1,2,3) rgb(4,5,6)
  ?screen_cell 1,0 = {0x41} width=1 attrs={} fg=rgb(1,2,3) bg=rgb(4,5,6)
  ?screen_row 1 = 0x41,0x41,0x42
PUSH "\e[30H"
RESIZE 31,100
  ?screen_row 0 = "ABCDE"
__END__
  ?cursor = 0,0
"""


def test_a_script_of_libvterm_is_read_to_its_end(tmp_path: Path) -> None:
    (tmp_path / "1words.test").write_text(SCRIPT, encoding="utf-8")
    counts = libvterm.run(tmp_path)
    assert counts.failures == []
    assert counts.passed == 19


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("?cursor = 2,0", "?cursor = 2,1"),
        ('row 0 = "one"', 'row 0 = "two"'),
        ("0x41,0xff10", "0x41,0xff11"),
        ("attrs={B}", "attrs={}"),
        ("rgb(224,0,0)", "rgb(0,224,0)"),
        ('output "\\e[0n"', 'output "\\e[3n"'),
        ("lineinfo 1 = cont", "lineinfo 1 ="),
        ("screen_eol 1,1 = 0", "screen_eol 1,1 = 1"),
        ("1,2-2,2", "1,2-2,3"),
        ("bg=rgb(4,5,6)", "bg=rgb(0,0,0)"),
        ('row 0 = "ABCDE"', 'row 0 = ""'),
    ],
)
def test_what_libvterm_shows_otherwise_is_a_failure(tmp_path: Path, right: str, wrong: str) -> None:
    assert right in SCRIPT
    (tmp_path / "1words.test").write_text(SCRIPT.replace(right, wrong, 1), encoding="utf-8")
    counts = libvterm.run(tmp_path)
    assert (counts.passed, len(counts.failures)) == (18, 1)
    assert counts.failures[0].startswith("1words [Words]")


def test_a_file_of_xterms_passes_when_the_whole_screen_is_xterms(tmp_path: Path) -> None:
    (tmp_path / "t1-good.in").write_bytes(b"a\nb\x1b[3Cc")
    (tmp_path / "t1-good.text").write_text("a\nb   c\n" + "\n" * 23, encoding="utf-8")
    (tmp_path / "t2-bad.in").write_bytes(b"a\nb")
    (tmp_path / "t2-bad.text").write_text("a\n b\n" + "\n" * 23, encoding="utf-8")
    counts = xterm_fixtures.run(tmp_path)
    assert counts.passed == 1
    assert [failure.partition(":")[0] for failure in counts.failures] == ["t2-bad line 2"]


def test_a_file_recorded_raw_is_shown_raw_and_a_corrected_one_has_its_correction(tmp_path: Path) -> None:
    (tmp_path / "t0070-DECSTBM_LF.in").write_bytes(b"top" + b"\n" * 24 + b"x\n")
    (tmp_path / "t0070-DECSTBM_LF.text").write_text("top\n" + "\n" * 23 + "   x\n", encoding="utf-8")
    (tmp_path / "t0102-DECAWM.in").write_bytes(b"-abch\n   this")
    (tmp_path / "t0102-DECAWM.text").write_text("-abcd\n   this\n" + "\n" * 22, encoding="utf-8")
    counts = xterm_fixtures.run(tmp_path)
    assert (counts.passed, counts.by_choice, counts.failures) == (2, [], [])


def test_what_differs_by_choice_is_counted_apart() -> None:
    counts = Counts({"one [": "on purpose"})
    counts.check("one [x] cursor", 1, 2)
    counts.check("two [x] cursor", 1, 2)
    counts.check("two [y] cursor", 1, 1)
    assert (counts.made, counts.share) == (3, 1 / 3)
    assert counts.by_choice == ["one [x] cursor: expected 1, shown 2 (on purpose)"]


def test_a_registry_that_does_not_answer_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    npm = programs / "npm"
    npm.write_text("#!/bin/sh\necho 'no such package' >&2\nexit 1\n", encoding="utf-8")
    npm.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    with pytest.raises(packages.NotAvailableError, match=r"xterm@2\.0\.1 failed: no such package"):
        packages.xterm_fixtures(tmp_path)
