"""Shortcuts of the shell policy that save time alone: each says what the long way round says."""

from __future__ import annotations

import tomllib

from hypothesis import given, settings
from hypothesis import strategies as st

from ollm_tui.core.bus.states import Risk
from ollm_tui.core.policy.rule_set import RuleSet, condition_values
from ollm_tui.core.policy.rules import Decision, Operator, PolicyCondition, PolicyRule, RuleSource
from ollm_tui.core.policy.shell.program_table import program_key, tables
from ollm_tui.core.policy.shell.risky_options import risky_options
from ollm_tui.core.policy.shell.shell_line import analyse, analyse_uncached
from ollm_tui.core.policy.shell.words import command_of
from tests import DATA_DIR

DATA = DATA_DIR / "shell_lines"
PIECES: list[str] = tomllib.loads((DATA / "pieces.toml").read_text("utf-8"))["shell_pieces"]
lines = st.one_of(
    st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=4)), max_size=10).map("".join),
    st.text(st.characters(min_codepoint=9, max_codepoint=126), max_size=40),
)
params = st.dictionaries(st.sampled_from("abc"), st.one_of(st.text(max_size=2), st.lists(st.text(max_size=1))))
conditions = st.builds(
    PolicyCondition,
    param=st.sampled_from("abc"),
    operator=st.sampled_from([Operator.EQUALS, Operator.CONTAINS, Operator.STARTS_WITH]),
    value=st.text(max_size=1),
)
rules = st.builds(
    PolicyRule,
    tool=st.sampled_from(["shell", "*"]),
    action=st.sampled_from(Decision),
    conditions=st.lists(conditions, max_size=2),
)


WORDS = """ls git status -la a=b --opt=val 2 10 'a;b' '' "" '$(x)' "{a,b}" time coproc export FOO=1 test let a+=1 %1 @ +
: . .. ./x , - -- a/b = == 1=2 eval 'if' unset x:y /dev/null '#' "'" '"' case esac in do HEAD~3 x~ a=~ ^a^b # >/dev/null
2>&1 2>/dev/null >&2 1>x 2>&1x ! { } & ( $HOME *.py"""
plain_lines = st.lists(
    st.tuples(
        st.lists(st.sampled_from(["'p q'", '"x y"', *WORDS.split()]), min_size=1, max_size=5).map(" ".join),
        st.sampled_from(["&&", "|", " ; ", "||"]),
    ),
    min_size=1,
    max_size=4,
).map(lambda drawn: "".join(part for pair in drawn for part in pair)[:-2].rstrip())


@settings(max_examples=100, deadline=None)
@given(plain_lines)
def test_a_line_of_plain_words_is_read_as_both_readers_read_it(line: str) -> None:
    quick = analyse_uncached(line)
    slow = analyse_uncached(f" {line}")  # a blank before it: no longer one of plain words alone
    for one, other in ((quick.parts, slow.parts), (quick.all_commands, slow.all_commands)):
        assert [(each.text, each.argv, each.source, each.reasons) for each in one] == [
            (each.text, each.argv, each.source, each.reasons) for each in other
        ]
    if not quick.opaque:
        assert [[(word.start + 1, word.end + 1) for word in part.words] for part in quick.parts] == [
            [(word.start, word.end) for word in part.words] for part in slow.parts
        ]
    assert (quick.opaque_reasons, quick.file_targets) == (slow.opaque_reasons, slow.file_targets)
    assert (quick.incomplete, quick.unnamed) == (slow.incomplete, slow.unnamed)


@settings(max_examples=100, deadline=None)
@given(lines)
def test_a_remembered_line_is_the_line_analysed_anew(line: str) -> None:
    analyse(line)
    assert analyse(line) == analyse_uncached(line)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=5)), min_size=1, max_size=5), st.data())
def test_a_program_with_a_deleting_word_is_known_to_have_one(rest: list[str], data: st.DataObject) -> None:
    flagged = tables().flagged
    name = data.draw(st.sampled_from(sorted(flagged)))
    options = [*flagged[name].long, *(f"-{letter}" for letter in flagged[name].short), *flagged[name].sub, *rest]
    command = command_of([name, *data.draw(st.lists(st.sampled_from(options), max_size=3)), *rest])
    if any(flag.effect == "deletes" for flag in risky_options(command)):
        assert flagged[program_key(name)].may_delete


@settings(max_examples=100, deadline=None)
@given(st.lists(rules, max_size=8), params)
def test_the_deciding_rule_is_the_first_that_matches(drawn: list[PolicyRule], given_params: dict[str, object]) -> None:
    placed = RuleSet([(rule, RuleSource("user", number)) for number, rule in enumerate(drawn, 1)])
    seen = condition_values(given_params)  # pyright: ignore[reportArgumentType] (drawn from JSON values)
    expected = next((rule for rule in placed.for_tool("shell") if rule.matches(seen)), None)
    assert placed.deciding("shell", seen) is expected
    for given_names in (tuple(seen), (*seen, "command")):
        possible = placed.possible("shell", given_names)
        assert next((rule for rule in possible if rule.matches(seen)), None) is expected


def test_decisions_and_risks_rank_in_their_order() -> None:
    assert [each.rank for each in Decision] == [0, 1, 2]
    assert Decision("ask").rank < Decision.DENY.rank
    assert sorted(Risk, key=lambda each: each.rank) == [Risk.LOW, Risk.MEDIUM, Risk.HIGH]
