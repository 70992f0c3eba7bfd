"""What holds for every command line: totality, strictness, independence of quoting; open strategies throughout."""

from __future__ import annotations

import shlex
import time
import tomllib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ollm_tui.core.bus.states import Risk
from ollm_tui.core.policy.approval_patterns import ApprovalPattern, suggest_pattern
from ollm_tui.core.policy.shell.read_only import command_risk, read_only, read_only_parts
from ollm_tui.core.policy.shell.risky_options import risky_options
from ollm_tui.core.policy.shell.shell_line import MAX_CHARACTERS, ShellLine, analyse
from tests import DATA_DIR

RANK = {Risk.LOW: 0, Risk.MEDIUM: 1, Risk.HIGH: 2}
PATTERNS = [
    ApprovalPattern.parse(text) for text in ("*", "git *", "git log *", "echo *", "find *", "sort *", "rm *", "a* *")
]

DATA = DATA_DIR / "shell_lines"
SHELL_PIECES: list[str] = tomllib.loads((DATA / "pieces.toml").read_text("utf-8"))["shell_pieces"]
pieces = st.one_of(st.sampled_from(SHELL_PIECES), st.text(max_size=4))
shell_like = st.one_of(
    st.lists(pieces, max_size=14).map("".join), st.lists(pieces, max_size=14).map(" ".join), st.text(max_size=60)
)
ordinary = st.text(st.characters(exclude_categories=["C", "Z", "M"], max_codepoint=0x2FF), max_size=8)
words = st.one_of(ordinary, st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=8))
names = st.from_regex(r"[a-z][a-z0-9_-]{0,6}", fullmatch=True)
argvs = st.builds(
    lambda name, rest: [name, *rest], st.one_of(names, st.sampled_from(SHELL_PIECES[:6])), st.lists(words, max_size=5)
)


def allowed(line: ShellLine) -> bool:
    """What an engine with the shipped list and these approvals would allow, paths aside."""
    if line.opaque:
        return False
    verdicts = read_only_parts(line)
    return all(
        verdict or any(pattern.covers(part) for pattern in PATTERNS)
        for part, verdict in zip(line.parts, verdicts, strict=True)
    )


@settings(max_examples=100, deadline=None)
@given(shell_like)
def test_any_text_gives_a_value_and_never_an_exception(text: str) -> None:
    line = analyse(text)
    assert line.source == text
    assert line.opaque or line.parts
    for part in line.parts:
        assert read_only(part).covered or read_only(part).reason
        suggest_pattern(part)
    for command in line.all_commands:
        risky_options(command)
        assert command.spellings
    read_only_parts(line)
    command_risk(line, lambda path: path.startswith("/"))


@settings(max_examples=100, deadline=None)
@given(shell_like, shell_like, st.sampled_from(["&&", "||", ";", "|", "\n", "&", "|&"]))
def test_adding_a_part_never_loosens(first: str, second: str, operator: str) -> None:
    alone = [analyse(first), analyse(second)]
    together = analyse(f"{first} {operator} {second}")
    if allowed(together):
        # a line cut in two inside quotes is no sum of its halves: compare only where both stand for themselves
        assert all(allowed(line) for line in alone if not line.opaque and line.parts)
    swallowed = "#" in first and operator != "\n"  # then the second may be part of a comment, which never runs
    if not together.opaque and not any(line.opaque for line in alone) and not swallowed:
        assert together.parts == () or [part.argv for part in together.parts] == [
            part.argv for line in alone for part in line.parts
        ]
        assert RANK[command_risk(together)] >= max(RANK[command_risk(line)] for line in alone)


@settings(max_examples=100, deadline=None)
@given(argvs)
def test_a_refused_command_stays_refused_in_every_company(argv: list[str]) -> None:
    own = shlex.join(argv)
    if allowed(analyse(own)):
        return
    for line in (
        f"ls; {own}",
        f"{own} | cat",
        f"(ls && {own})",
        f"{{ {own}; }}",
        f"! {own}",
        f"{own} # ok",
        f"ls\n{own}",
    ):
        assert not allowed(analyse(line)), line


def quoting_variants(word: str) -> list[str]:
    variants = [shlex.quote(word), "'" + word.replace("'", "'\\''") + "'"]
    if word:
        variants.append("".join("\\" + char for char in word))
        variants.append("''" + shlex.quote(word) + '""')
        variants.append("".join(f"'{char}'" if char != "'" else '"\'"' for char in word))
    if not set(word) & set('$`"\\!'):
        variants.append(f'"{word}"')
    return variants


@settings(max_examples=100, deadline=None)
@given(argvs, st.data())
def test_ways_of_quoting_and_spacing_the_same_words_get_the_same_verdict(argv: list[str], data: st.DataObject) -> None:
    plain = analyse(shlex.join(argv))
    spelled = [data.draw(st.sampled_from(quoting_variants(word))) for word in argv]
    blank = data.draw(st.sampled_from([" ", "   ", "\t", " \t "]))
    other = analyse(blank.join(spelled) + data.draw(st.sampled_from(["", " ", " # c", "\n", ";"])))
    if plain.opaque or other.opaque:
        # two readers may disagree about an odd spelling, which only ever asks
        return
    assert [part.argv for part in other.parts] == [part.argv for part in plain.parts] == [tuple(argv)]
    assert [part.text for part in other.parts] == [part.text for part in plain.parts]
    assert allowed(other) == allowed(plain)
    assert read_only_parts(other) == read_only_parts(plain)
    assert command_risk(other) == command_risk(plain)
    assert suggest_pattern(other.parts[0]) == suggest_pattern(plain.parts[0])


@settings(max_examples=100, deadline=None)
@given(argvs)
def test_most_quoted_lines_are_understood(argv: list[str]) -> None:
    """The property above would hold for an analysis that calls everything opaque; this one keeps it honest."""
    simple = [word for word in argv if word.isascii() and word.isalnum()]
    if len(simple) == len(argv) and argv[0] in ("git", "ls", "cat", "echo"):
        assert not analyse(shlex.join(argv)).opaque_reasons
    line = analyse(shlex.join(["echo", *[word for word in argv if word.isascii()]]))
    assert line.opaque_reasons == () or "disagree" in line.reason or "syntax error" in line.reason


@settings(max_examples=100, deadline=None)
@given(shell_like)
def test_the_canonical_text_of_a_part_reads_back_as_the_same_words(text: str) -> None:
    for part in analyse(text).parts:
        if not part.plain:
            continue
        again = analyse(part.text)
        if not again.opaque:
            assert [command.argv for command in again.parts] == [part.argv]
            assert again.parts[0].text == part.text
            assert [(word.variable, word.glob) for word in again.parts[0].words] == [
                (word.variable, word.glob) for word in part.words
            ]


@settings(max_examples=100, deadline=None)
@given(st.one_of(shell_like, argvs.map(shlex.join)))
def test_a_suggested_pattern_covers_the_command_it_came_from(text: str) -> None:
    for part in analyse(text).parts:
        suggestion = suggest_pattern(part)
        if suggestion is not None:
            assert ApprovalPattern.parse(suggestion).covers(part)
            assert suggestion != "*"


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=30), argvs)
def test_any_pattern_text_gives_an_answer(text: str, argv: list[str]) -> None:
    line = analyse(shlex.join(argv))
    if not text.split():
        return
    pattern = ApprovalPattern.parse(text)
    for part in line.parts:
        cover = pattern.covers(part)
        assert cover.covered or cover.reason


@settings(max_examples=100, deadline=None)
@given(argvs)
def test_the_exact_words_as_a_pattern_cover_exactly_them(argv: list[str]) -> None:
    line = analyse(shlex.join(argv))
    if line.opaque or any("'" in word for word in argv) or "" in argv:
        return
    (command,) = line.parts
    pattern = ApprovalPattern.parse(" ".join(f"'{word}'" for word in argv))
    cover = pattern.covers(command)
    assert cover or "run" in cover.reason or "spell" in cover.reason
    assert not pattern.covers(analyse(shlex.join([*argv, "more"])).parts[0])


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from(["*", "?", "a", "b", "ab"]), min_size=1, max_size=12), st.text("ab", max_size=40))
def test_globs_match_as_the_standard_library_does(glob: list[str], text: str) -> None:
    import fnmatch  # the reference: `*` and `?` mean the same there, `/` included

    pattern = "".join(glob)
    command = analyse(shlex.join(["cmd", text, "end"])).parts[0]
    covered = ApprovalPattern.parse(f"cmd {pattern} end").covers(command).covered
    assert covered == (fnmatch.fnmatchcase(text, pattern) or pattern == "*")


NESTINGS = {
    "substitutions": "$(" * 3_000,
    "closed substitutions": "$(" * 1_500 + "ls" + ")" * 1_500,
    "parentheses": "(" * 7_000,
    "braces": "{ " * 3_500,
    "quotes": "'\"" * 3_500,
    "backticks": "`" * 7_000,
    "parameters": "${a:-" * 1_500,
    "heredocs": "<<a " * 1_800,
    "pipes": "a|" * 3_900,
    "semicolons": "a;" * 3_900,
    "ifs": "if a; then " * 700,
    "arithmetic": "$((" * 2_500,
    "brackets": "[[ " * 2_500,
    "sudo": "sudo " * 1_500 + "ls",
    "bash -c": "bash -c " * 900 + "ls",
    "eval": "eval " * 1_500 + "ls",
    "env": "env " * 1_900 + "ls",
    "blanks": "ls" + " " * 7_900 + "x",
    "long word": "a" * 7_990,
    "tildes": "~" * 7_990,
    "stars": "ls " + "*" * 7_900,
    "backslashes": "\\" * 7_990,
    "newlines": "\n" * 7_990,
    "dollars": "$" * 7_990,
    "too long": "ls; " * 20_000,
    "much too long": "x" * 1_000_000,
    "long quotes": "'" + "a" * 500_000,
    "sed script": "sed '" + "s/a/b/;" * 1_000 + "'",
    "sed address": "sed '" + "/" * 7_900 + "'",
    "exec in exec": "find . " + "-exec find . " * 600 + "ls",
}


@pytest.mark.parametrize("name", NESTINGS)
def test_nested_and_long_lines_end_quickly(name: str) -> None:
    line = NESTINGS[name]
    started = time.process_time()
    result = analyse(line)
    verdicts = read_only_parts(result)
    command_risk(result)
    for part in result.parts[:50]:
        suggest_pattern(part)
        for pattern in PATTERNS:
            pattern.covers(part)
    assert time.process_time() - started < 5, "no reading may take quadratic time of note"
    if len(line) > MAX_CHARACTERS:
        assert result.opaque
    assert len(verdicts) == len(result.parts)


def test_a_glob_with_many_stars_takes_no_exponential_time() -> None:
    pattern = ApprovalPattern.parse("cmd " + "*a" * 40 + "b")
    command = analyse("cmd " + "a" * 4_000).parts[0]
    started = time.process_time()
    assert not pattern.covers(command)
    assert time.process_time() - started < 2


def test_a_hidden_command_is_found_behind_more_parts_than_are_analysed() -> None:
    line = "ls; " * 5_000 + "rm -rf x"
    result = analyse(line)
    assert result.opaque
    assert any(command.text == "rm -rf x" for command in result.all_commands)


def test_a_line_too_large_to_list_says_that_it_is_incomplete() -> None:
    result = analyse("".join(f"cmd{number}; " for number in range(6_000)) + "rm -rf x")
    assert result.opaque
    assert result.incomplete


def test_nesting_beyond_what_is_followed_says_that_it_is_incomplete() -> None:
    line = "rm -rf x"
    for _ in range(8):
        line = shlex.join(["bash", "-c", line])
    result = analyse(line)
    assert result.opaque
    assert result.incomplete


@pytest.mark.parametrize(
    "line", ["{\U00031860", "/S{\U000f330d", "echo a{\U000f2838 > x", "{1..\U0010ffff}", "{\ud800", "{\uffff}"]
)
def test_letters_that_crash_the_grammar_never_reach_it(line: str) -> None:
    """tree-sitter-bash 0.25.1 reads past a table at a brace followed by a letter far beyond ASCII."""
    for repeated in (1, 2, 7, 30):
        assert analyse(line * repeated).source == line * repeated
