"""`edit_file`: what is replaced, what is never touched, and what a model is told when an edit does not fit."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ollm_tui.core.base.abort import AbortController
from ollm_tui.core.base.errors import (
    BinaryFile,
    EditNoChange,
    EditTargetAmbiguous,
    EditTargetNotFound,
    EncodingFailure,
    FileChanged,
    FileNotFound,
    FileTooLarge,
    InvalidArguments,
    InvalidPath,
    IsADirectory,
    NoPermission,
    OperationCancelled,
)
from ollm_tui.core.bus.confirmation import DiffPreview
from ollm_tui.core.tools.edit_file import EDIT_FILE, EditFileData
from ollm_tui.core.tools.edit_matching import MatchKind
from tests.core.tools.file_calls import Room, new_room, open_room, preview_of, run, texts, unprivileged

some = texts.filter(bool)


@pytest.fixture
def room(tmp_path: Path) -> Room:
    return Room(tmp_path)


def edit(room: Room, *edits: tuple[str, str] | dict[str, object], path: str = "f") -> EditFileData:
    wanted = [{"target": each[0], "replacement": each[1]} if isinstance(each, tuple) else each for each in edits]
    data = room.call(EDIT_FILE, path=path, edits=wanted).data
    assert isinstance(data, EditFileData)
    return data


def occurrences(content: str | bytes, target: str | bytes) -> int:
    """How often the target is there, overlapping itself included."""
    return sum(content[start : start + len(target)] == target for start in range(len(content)))


def lf(text: str) -> str:
    return text.replace("\r", "")


@settings(max_examples=100, deadline=None)
@given(before=texts, target=some, replacement=texts, after=texts)
def test_property_13_a_target_that_occurs_once_is_replaced(
    before: str, target: str, replacement: str, after: str
) -> None:
    before, target, replacement, after = map(lf, (before, target, replacement, after))
    content = before + target + after
    assume(target and target != replacement and occurrences(content, target) == 1)
    with new_room() as room:
        room.write("f", content)
        data = edit(room, (target, replacement))
        assert room.read("f") == (before + replacement + after).encode()
        assert data.match is MatchKind.EXACT


@settings(max_examples=100, deadline=None)
@given(content=texts, target=some, replacement=texts)
def test_property_14_a_target_that_does_not_occur_is_not_found(content: str, target: str, replacement: str) -> None:
    assume(target != replacement and lf(target) not in lf(content))
    with new_room() as room:
        room.strict()
        room.write("f", content)
        with pytest.raises(EditTargetNotFound, match="Edit 1 of 1") as failure:
            edit(room, (target, replacement))
        assert failure.value.type == "EditTargetNotFound"
        assert room.read("f") == content.encode()


@settings(max_examples=100, deadline=None)
@given(parts=st.lists(texts, min_size=3, max_size=6), target=some, replacement=texts)
def test_property_15_a_target_that_occurs_more_than_once_is_ambiguous(
    parts: list[str], target: str, replacement: str
) -> None:
    assume(target != replacement)
    content = target.join(parts)
    with new_room() as room:
        room.write("f", content)
        with pytest.raises(EditTargetAmbiguous) as failure:
            edit(room, (target, replacement))
        count, lines = failure.value.details["count"], failure.value.details["lines"]
        assert isinstance(count, int)
        assert isinstance(lines, list)
        assert count >= 2
        assert lines
        assert room.read("f") == content.encode()


@settings(max_examples=100, deadline=None)
@given(
    before=st.binary(max_size=60),
    target=st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=8, max_size=20),
    replacement=st.text(st.characters(codec="ascii", categories=["L", "N", "P"]), max_size=20),
    after=st.binary(max_size=60),
)
def test_bytes_outside_the_replaced_span_stay_whatever_the_encoding(
    before: bytes, target: str, replacement: str, after: bytes
) -> None:
    raw = before + target.encode() + after
    assume(target != replacement and occurrences(raw, target.encode()) == 1)
    with new_room() as room:
        room.write("f", raw)
        try:
            edit(room, (target, replacement))
        except (BinaryFile, EditTargetNotFound, EncodingFailure):
            # no text, or one in which these bytes are other characters
            assert room.read("f") == raw
            return
        assert room.read("f") == before + replacement.encode() + after


@settings(max_examples=100, deadline=None)
@given(
    before=texts, after=texts, target=some, replacement=some, codec=st.sampled_from(["utf-16", "utf-32", "utf-8-sig"])
)
def test_wide_encodings_and_marks_are_kept(before: str, after: str, target: str, replacement: str, codec: str) -> None:
    before, after, target, replacement = map(lf, (before, after, target, replacement))
    content = before + target + after
    assume(target and target != replacement and occurrences(content, target) == 1)
    assume("\ufeff" not in content + replacement)
    with new_room() as room:
        room.write("f", content.encode(codec))
        edit(room, (target, replacement))
        assert room.read("f") == (before + replacement + after).encode(codec)


@settings(max_examples=100, deadline=None)
@given(before=texts, target=some, replacement=some, after=texts)
def test_the_opposite_edit_gives_the_file_back(before: str, target: str, replacement: str, after: str) -> None:
    before, target, replacement, after = map(lf, (before, target, replacement, after))
    content, changed = before + target + after, before + replacement + after
    assume(target and replacement and target != replacement)  # of a lone carriage return nothing is left
    assume(occurrences(content, target) == 1 and occurrences(changed, replacement) == 1)
    with new_room() as room:
        room.write("f", content)
        edit(room, (target, replacement))
        edit(room, (replacement, target))
        assert room.read("f") == content.encode()


@pytest.mark.parametrize(
    "replacement", ["$&", "$'", "$`", "$1", "$$", "\\1", "\\g<0>", "\\n", "{0}", "%s", "&", ""], ids=repr
)
def test_replacements_are_literal(room: Room, replacement: str) -> None:
    room.write("f", "before TARGET after")
    edit(room, ("TARGET", replacement))
    assert room.read("f").decode() == f"before {replacement} after"


@pytest.mark.parametrize("target", ["^[sv]d[a-z]$", "a.c", "(", "\\", "*", "a|b", "$"], ids=repr)
def test_targets_are_literal(room: Room, target: str) -> None:
    room.write("f", f"abc b <{target}> sda")
    edit(room, (f"<{target}>", "done"))
    assert room.read("f").decode() == "abc b done sda"


def test_edits_are_applied_in_order_each_on_the_result_of_the_one_before(room: Room) -> None:
    room.write("f", "one A two")
    assert edit(room, ("A", "B"), ("B two", "C three")).edits == 2
    assert room.read("f") == b"one C three"


def test_nothing_is_written_when_one_edit_does_not_fit_and_the_message_names_it(room: Room) -> None:
    room.write("f", "a b c")
    before = (room.folder / "f").stat()
    with pytest.raises(EditTargetNotFound, match="Edit 2 of 3") as failure:
        edit(room, ("a", "A"), ("zzz", "Z"), ("c", "C"))
    assert failure.value.details["edit"] == 2
    assert room.read("f") == b"a b c"
    assert (room.folder / "f").stat().st_mtime_ns == before.st_mtime_ns
    assert room.all_names() == ["f"]


@pytest.mark.parametrize(
    ("target", "replacement", "expected"),
    [
        ("a\nb", "x\ny", b"x\ry\rc\r"),
        ("b", "x\ny", b"a\rx\ry\rc\r"),
        ("b\n", "", b"a\rc\r"),
        (" a\n b\n", " x\n y\n", b"x\ry\rc\r"),
    ],
)
def test_lines_that_end_as_on_an_old_macintosh_go_on_ending_so(
    room: Room, target: str, replacement: str, expected: bytes
) -> None:
    room.write("f", b"a\rb\rc\r")
    room.call(EDIT_FILE, path="f", edits=[{"target": target, "replacement": replacement}])
    assert room.read("f") == expected


def test_crlf_files_take_targets_and_replacements_with_bare_line_ends(room: Room) -> None:
    room.write("f", "a\r\nb\r\nc\r\n")
    edit(room, ("a\nb", "x\ny\nz"))
    assert room.read("f") == b"x\r\ny\r\nz\r\nc\r\n"


def test_in_a_file_of_mixed_line_ends_each_passage_keeps_its_own(room: Room) -> None:
    room.write("f", "a\r\nb\r\nc\nd\ne")
    edit(room, ("b", "b\nB"), ("c\nd", "c\nC\nd"))
    assert room.read("f") == b"a\r\nb\r\nB\r\nc\nC\nd\ne"


def test_a_mark_stays_and_letters_of_old_encodings_stay(room: Room) -> None:
    room.write("f", b"\xef\xbb\xbfname = 1\n")
    edit(room, ("name = 1", "name = 2"))
    assert room.read("f") == b"\xef\xbb\xbfname = 2\n"
    room.write("g", "Grüße, Müller, naïve".encode("latin-1"))
    assert edit(room, ("Müller", "Möller"), path="g").encoding == "cp1252"
    assert room.read("g") == "Grüße, Möller, naïve".encode("latin-1")


def test_a_replacement_that_the_encoding_cannot_hold_is_refused_by_name(room: Room) -> None:
    room.write("f", "Grüße".encode("latin-1"))
    with pytest.raises(EncodingFailure, match=r"日.*cp1252"):
        edit(room, ("Gr", "日"))
    assert room.read("f") == "Grüße".encode("latin-1")


@pytest.mark.parametrize("end", ["", "\n"])
def test_the_end_of_the_file_keeps_its_form(room: Room, end: str) -> None:
    room.write("f", f"a\nb{end}")
    edit(room, ("b", "c"))
    assert room.read("f") == f"a\nc{end}".encode()


def test_deleting_takes_the_text_and_nothing_else(room: Room) -> None:
    room.write("f", "a\nb\nc\n")
    edit(room, ("b\n", ""))
    assert room.read("f") == b"a\nc\n"


def test_permissions_stay_and_a_link_stays_a_link(room: Room) -> None:
    place = room.write("script", "echo a")
    place.chmod(0o750)
    (room.folder / "link").symlink_to("script")
    room.call(EDIT_FILE, path="link", edits=[{"target": "a", "replacement": "b"}])
    assert (room.folder / "link").is_symlink()
    assert place.read_text() == "echo b"
    assert place.stat().st_mode & 0o777 == 0o750


def test_other_names_of_the_file_keep_the_old_content_and_that_is_said(room: Room) -> None:
    os.link(room.write("f", "old"), room.outside / "other")
    result = room.call(EDIT_FILE, path="f", edits=[{"target": "old", "replacement": "new"}])
    assert (room.outside / "other").read_text() == "old"
    assert any("hard links" in note for note in result.notes)


# -- placing -------------------------------------------------------------------------------------------------------


def numbered(*marked: int, count: int = 60) -> str:
    return "".join("x = 1\n" if line in marked else f"line {line}\n" for line in range(1, count + 1))


@pytest.mark.parametrize(("hint", "line"), [(10, 10), (12, 10), (50, 50), (35, 50), (29, 10)])
def test_a_line_hint_takes_the_occurrence_at_it_or_the_nearest(room: Room, hint: int, line: int) -> None:
    room.write("f", numbered(10, 50))
    edit(room, {"target": "x = 1", "replacement": "x = 2", "lineHint": hint})
    assert room.read("f").decode().split("\n").index("x = 2") + 1 == line


@pytest.mark.parametrize(("marked", "hint"), [((10, 20), 15), ((10, 20), 60), ((10, 12), 11)])
def test_a_hint_that_is_a_tie_or_too_far_stays_ambiguous(room: Room, marked: tuple[int, ...], hint: int) -> None:
    room.write("f", numbered(*marked))
    with pytest.raises(EditTargetAmbiguous, match="2 times, at lines"):
        edit(room, {"target": "x = 1", "replacement": "x = 2", "lineHint": hint})


def test_a_hint_includes_every_line_of_an_occurrence(room: Room) -> None:
    room.write("f", "a\nb\nc\n" + "-\n" * 3 + "a\nb\nc\n")
    edit(room, {"target": "a\nb\nc", "replacement": "z", "lineHint": 9})
    assert room.read("f") == b"a\nb\nc\n-\n-\n-\nz\n"


def test_two_occurrences_on_the_hinted_line_stay_ambiguous(room: Room) -> None:
    room.write("f", "a a\n")
    with pytest.raises(EditTargetAmbiguous):
        edit(room, {"target": "a", "replacement": "b", "lineHint": 1})


def test_start_and_end_line_must_contain_the_occurrence(room: Room) -> None:
    room.write("f", numbered(10, 50))
    edit(room, {"target": "x = 1", "replacement": "x = 2", "startLine": 45, "endLine": 55})
    assert room.read("f").decode().split("\n").index("x = 2") + 1 == 50
    with pytest.raises(EditTargetNotFound, match="lines 20 to 30 of f, but at line 10"):
        edit(room, {"target": "x = 1", "replacement": "x = 2", "startLine": 20, "endLine": 30})
    with pytest.raises(InvalidArguments, match="behind endLine"):
        edit(room, {"target": "x = 1", "replacement": "x = 2", "startLine": 3, "endLine": 2})


def test_a_hint_and_a_range_go_together(room: Room) -> None:
    room.write("f", numbered(10, 20, 50))
    edit(room, {"target": "x = 1", "replacement": "x = 2", "startLine": 5, "endLine": 30, "lineHint": 21})
    assert room.read("f").decode().split("\n").index("x = 2") + 1 == 20


def test_a_target_that_is_there_millions_of_times_is_answered_soon(room: Room) -> None:
    """Comparing each with each would take hours, and the suite's time limit would end it."""
    room.write("f", "a b " * 1_000_000 + "\n" + "c d\n" * 200_000)
    with pytest.raises(EditTargetAmbiguous, match="2200000 times"):
        edit(room, (" ", "_"))
    with pytest.raises(EditTargetAmbiguous):
        edit(room, {"target": " ", "replacement": "_", "lineHint": 1})
    edit(room, {"target": " ", "replacement": "_", "lineHint": 100_000})


def test_a_run_of_equal_lines_is_no_single_place(room: Room) -> None:
    room.write("f", "}\n}\n}\n")
    with pytest.raises(EditTargetAmbiguous):
        edit(room, ("}\n}", "]"))


# -- the ladder ----------------------------------------------------------------------------------------------------


def test_trailing_space_may_differ_on_whole_lines(room: Room) -> None:
    room.write("f", "def f():   \n    return 1\t\nend\n")
    result = room.call(
        EDIT_FILE, path="f", edits=[{"target": "def f():\n    return 1\n", "replacement": "def f():\n    return 2\n"}]
    )
    assert room.read("f") == b"def f():\n    return 2\nend\n"
    assert isinstance(result.data, EditFileData)
    assert result.data.match is MatchKind.TRAILING_SPACE
    assert "lines 1-2" in result.notes[0]


@pytest.mark.parametrize(
    ("there", "target", "replacement", "then"),
    [
        ("\tif a:\n\t\tb()\n", "if a:\n\tb()\n", "if a:\n\tc()\n\td()\n", "\tif a:\n\t\tc()\n\t\td()\n"),
        (
            "\tif a:\n\t\tb()\n",
            "    if a:\n        b()\n",
            "    if a:\n        if c:\n            b()\n",
            "\tif a:\n\t\tif c:\n\t\t\tb()\n",
        ),
        (
            "  if a:\n    b()\n",
            "    if a:\n        b()\n",
            "    if a:\n        b()\n    else:\n            c()\n",
            "  if a:\n    b()\n  else:\n      c()\n",
        ),
        ("x()\n", "        x()\n", "        y()\n            z()\n", "y()\n    z()\n"),
        ("        a\n\n        b\n", "a\n\nb\n", "a\n\nc\n", "        a\n\n        c\n"),
    ],
    ids=["shifted", "tabs for spaces", "narrower levels", "less deep", "blank lines"],
)
def test_indentation_may_differ_and_the_replacement_is_indented_to_fit(
    room: Room, there: str, target: str, replacement: str, then: str
) -> None:
    room.write("f", f"top\n{there}bottom\n")
    data = edit(room, (target, replacement))
    assert room.read("f").decode() == f"top\n{then}bottom\n"
    assert data.match is MatchKind.INDENTATION


def test_an_inexact_match_keeps_crlf_and_a_missing_last_line_end(room: Room) -> None:
    room.write("f", "  a\r\n  b")
    edit(room, ("a\nb\n", "a\nc\n"))
    assert room.read("f") == b"  a\r\n  c"


@pytest.mark.parametrize(
    ("content", "target"),
    [
        ("    a()\n  a()\n", "a()\t"),
        ("value = a()\n", "a() "),
        ("if x:\n    a\nelse:\n    b\n", "if x:\na\nelse:\nb"),
        ("a\nb\n", "  \n \n"),
        ("a  b\n", "a b"),
    ],
    ids=["two places", "part of a line", "structure lost", "blanks only", "inner blanks"],
)
def test_what_is_not_one_whole_line_match_is_not_applied(room: Room, content: str, target: str) -> None:
    room.write("f", content)
    with pytest.raises(EditTargetNotFound):
        edit(room, (target, "replaced"))
    assert room.read("f").decode() == content


def test_strict_edits_turn_the_ladder_off_and_say_where_it_would_have_matched(room: Room) -> None:
    room.strict()
    room.write("f", "    a()\n")
    with pytest.raises(EditTargetNotFound, match=r"white space at line 1[\s\S]*····a\(\)"):
        edit(room, ("\ta()", "\tb()"))


def test_the_nearest_line_is_quoted_with_its_blanks_visible(room: Room) -> None:
    room.write("f", "first\n\treturn compute_total(values) \nlast\n")
    with pytest.raises(EditTargetNotFound) as failure:
        edit(room, ("return compute_totals(values)", "x"))
    assert "2: →return·compute_total(values)·" in failure.value.message
    assert failure.value.details["nearest"] == [2]


def test_a_target_that_begins_well_is_told_the_line_at_which_it_goes_wrong(room: Room) -> None:
    room.write("f", "def f():\n\treturn 1\n\ndef f():\n    x = 1\n    return x\n")
    with pytest.raises(EditTargetNotFound) as failure:
        edit(room, ("def f():\n  x = 1\n  return y\n", "z"))
    message = failure.value.message
    assert "its line 3 is another one" in message
    assert "  6: ····return·x" in message
    assert "The target's line 3: ··return·y" in message
    assert failure.value.details["nearest"] == [6]


def test_many_occurrences_on_one_line_name_it_once(room: Room) -> None:
    room.write("f", "a" * 1000)
    with pytest.raises(EditTargetAmbiguous) as failure:
        edit(room, ("a", "b"))
    assert "1000 times, at line 1 and 980 more" in failure.value.message


def test_searching_for_the_nearest_line_of_a_huge_file_ends_soon(room: Room) -> None:
    room.write("f", "some words that repeat on every line and are never quite the same\n" * 60_000)
    with pytest.raises(EditTargetNotFound):
        edit(room, ("some words that repeat on any line, but never", "x"))


# -- refusals ------------------------------------------------------------------------------------------------------


def test_edits_that_change_nothing_are_errors(room: Room) -> None:
    room.write("f", "a b")
    with pytest.raises(EditNoChange):
        edit(room, ("a", "a"))
    with pytest.raises(EditNoChange):
        edit(room, ("a", "c"), ("c", "a"))
    for edits in ([], [{"target": "", "replacement": "x"}]):
        with pytest.raises(InvalidArguments):
            room.call(EDIT_FILE, path="f", edits=edits)


def test_what_is_no_text_file_is_refused(room: Room) -> None:
    room.write("picture", b"\x89PNG\r\n\x1a\n\0\0")
    (room.folder / "d").mkdir()
    for path, failure in [
        ("picture", BinaryFile),
        ("d", IsADirectory),
        ("missing", FileNotFound),
        ("../x", InvalidPath),
    ]:
        with pytest.raises(failure):
            edit(room, ("a", "b"), path=path)


def test_a_file_over_the_limit_is_refused_with_both_sizes(room: Room) -> None:
    room.limited(file_bytes=100)
    room.write("f", "a" * 101)
    with pytest.raises(FileTooLarge, match=r"101 bytes.*100"):
        edit(room, ("aa", "b"))


def test_a_write_protected_file_is_refused() -> None:
    with open_room() as room:
        room.write("f", "a").chmod(0o444)
        with unprivileged(), pytest.raises(NoPermission):
            edit(room, ("a", "b"))
        assert room.read("f") == b"a"


# -- time between question and act ----------------------------------------------------------------------------------


def test_the_preview_shows_the_change_and_that_is_what_is_written(room: Room) -> None:
    room.write("f", "a\nb\nc\n")
    call = room.invocation(EDIT_FILE, path="f", edits=[{"target": "b", "replacement": "B"}])
    preview = asyncio.run(preview_of(call))
    assert isinstance(preview, DiffPreview)
    assert preview.diff.hunks[0].lines == (" a", "-b", "+B", " c")
    assert room.read("f") == b"a\nb\nc\n"
    result = asyncio.run(run(call))
    assert isinstance(result.data, EditFileData)
    assert result.data.diff == preview.diff


def test_a_shown_diff_that_no_longer_fits_is_file_changed(room: Room) -> None:
    for changed in ("a\nX\nb\nc\n", "nothing of it\n"):
        room.write("f", "a\nb\nc\n")
        call = room.invocation(EDIT_FILE, path="f", edits=[{"target": "b", "replacement": "B"}])
        asyncio.run(preview_of(call))
        room.write("f", changed)
        with pytest.raises(FileChanged):
            asyncio.run(call.execute(AbortController().signal))
        assert room.read("f").decode() == changed


def test_a_change_elsewhere_in_the_file_lets_the_shown_edit_through_with_a_note(room: Room) -> None:
    content = numbered(30)
    room.write("f", content)
    call = room.invocation(EDIT_FILE, path="f", edits=[{"target": "x = 1", "replacement": "x = 2"}])
    asyncio.run(preview_of(call))
    room.write("f", "new first line\n" + content)
    result = asyncio.run(call.execute(AbortController().signal))
    assert room.read("f").decode() == "new first line\n" + content.replace("x = 1", "x = 2")
    assert any("still fits" in note for note in result.notes)


def test_a_file_that_vanished_meanwhile_is_not_made_anew(room: Room) -> None:
    place = room.write("f", "a")
    call = room.invocation(EDIT_FILE, path="f", edits=[{"target": "a", "replacement": "b"}])
    asyncio.run(preview_of(call))
    place.unlink()
    with pytest.raises(FileNotFound):
        asyncio.run(call.execute(AbortController().signal))
    assert room.all_names() == []


def test_a_change_by_another_program_at_the_last_moment_is_not_lost(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    room.write("f", "a")
    write = os.writev

    def change_first(descriptor: int, pieces: list[memoryview]) -> int:
        room.write("f", "a and more")
        return write(descriptor, pieces)

    monkeypatch.setattr(os, "writev", change_first)
    with pytest.raises(FileChanged, match="at this moment"):
        edit(room, ("a", "b"))
    assert room.read("f") == b"a and more"
    assert room.all_names() == ["f"]


def test_touching_a_file_is_no_change(room: Room) -> None:
    place = room.write("f", "a")
    call = room.invocation(EDIT_FILE, path="f", edits=[{"target": "a", "replacement": "b"}])
    before = asyncio.run(call.question()).state
    os.utime(place, (1, 1))
    assert asyncio.run(call.question()).state == before
    room.write("f", "a ")
    assert asyncio.run(call.question()).state != before


def test_many_edits_of_one_file_at_once_all_land(room: Room) -> None:
    room.write("f", "".join(f"<{number}>" for number in range(40)))

    async def all_at_once() -> None:
        calls = [
            room.invocation(EDIT_FILE, path="f", edits=[{"target": f"<{n}>", "replacement": f"[{n}]"}])
            for n in range(40)
        ]
        await asyncio.gather(*(run(call) for call in calls))

    asyncio.run(all_at_once())
    assert room.read("f").decode() == "".join(f"[{number}]" for number in range(40))


def test_an_aborted_call_changes_nothing(room: Room) -> None:
    room.write("f", "a")
    controller = AbortController()
    controller.abort("stop")
    call = room.invocation(EDIT_FILE, path="f", edits=[{"target": "a", "replacement": "b"}])
    with pytest.raises(OperationCancelled):
        asyncio.run(call.execute(controller.signal))
    assert room.read("f") == b"a"


def test_the_description_names_path_and_number(room: Room) -> None:
    call = room.invocation(EDIT_FILE, path="a\x1b[2Jb", edits=[{"target": "a", "replacement": "b"}])
    assert call.get_description() == "Edit a␛[2Jb (1 edit)"
    assert call.tool_locations() == ["a\x1b[2Jb"]
