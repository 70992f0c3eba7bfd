"""Groups of similar questions: the pure function, by properties and by example."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from ollm_tui.core.bus.confirmation import CommandPreview
from ollm_tui.core.bus.notices import Confirmation
from ollm_tui.core.bus.states import ConfirmationState, Risk
from ollm_tui.tui.question_groups import QuestionGroup, group_questions, kind_of, subject
from tests.tui.pilot import command_question, question

WORDS = st.lists(st.text(min_size=0, max_size=4) | st.sampled_from(["make", "a-1", "a-2"]), min_size=1, max_size=4)


@st.composite
def questions(draw: st.DrawFn) -> list[Confirmation]:
    found: list[Confirmation] = []
    for number in range(1, draw(st.integers(0, 12)) + 1):
        words = draw(WORDS)
        risk = draw(st.sampled_from(Risk))
        if draw(st.booleans()):
            cwd = draw(st.sampled_from([".", "lib"]))
            reason = f"no approval covers {' '.join(words)!r} ({draw(st.sampled_from(['one', 'two']))})"
            preview = CommandPreview(command=" ".join(words), cwd=cwd)
            found.append(command_question(number, " ".join(words), risk=risk, preview=preview, reason=reason))
        else:
            tool = draw(st.sampled_from(["edit_file", "write_file"]))
            path = draw(st.text(min_size=1, max_size=8))
            found.append(question(number, tool=tool, risk=risk, locations=(path,)))
    return found


@given(questions())
def test_every_question_is_in_exactly_one_group_and_the_order_of_the_oldest_is_kept(items: list[Confirmation]) -> None:
    groups = group_questions(items)
    assert sorted(item_id for group in groups for item_id in group.ids) == sorted(item.id for item in items)
    assert [group.oldest.ordinal for group in groups] == sorted(group.oldest.ordinal for group in groups)
    for group in groups:
        ordinals = [item.ordinal for item in group.items]
        assert ordinals == sorted(ordinals)


@given(questions())
def test_the_pattern_of_a_group_matches_its_members_and_these_have_one_tool_rule_risk_and_place(
    items: list[Confirmation],
) -> None:
    for group in group_questions(items):
        first = group.oldest
        for item in group.items:
            assert group.pattern.matches(subject(item))
            assert item.details.tool_name == first.details.tool_name and item.details.risk is first.details.risk
            assert kind_of(item) == kind_of(first)
            one, other = item.details.preview, first.details.preview
            if isinstance(one, CommandPreview) and isinstance(other, CommandPreview):
                assert one.cwd == other.cwd
                pairs = list(zip(one.command.split(" "), other.command.split(" "), strict=True))
                assert sum(mine != its for mine, its in pairs) <= 1


def patterns(*items: Confirmation) -> list[tuple[int, str]]:
    return [(len(group.items), group.pattern.text) for group in group_questions(items)]


def make(number: int, command: str, **more: object) -> Confirmation:
    reason = f"no approval covers {command!r} (make is not on the read-only list)"
    return command_question(number, command, **{"risk": Risk.MEDIUM, "reason": reason, **more})  # type: ignore[arg-type]  # fields of the question by name


def test_commands_that_differ_in_one_word_stand_together() -> None:
    assert patterns(*(make(number, f"make target-{number}") for number in range(1, 39))) == [(38, "make target-*")]


def test_the_first_two_say_which_word_may_differ() -> None:
    found = patterns(make(1, "cp a x"), make(2, "cp b x"), make(3, "cp a y"), make(4, "cp c x"))
    assert found == [(3, "cp * x"), (1, "cp a y")]


def test_files_of_one_tool_and_rule_stand_together() -> None:
    assert patterns(question(1, locations=("src/a.py",)), question(2, locations=("src/b.py",))) == [(2, "src/*.py")]


def test_another_risk_rule_place_warning_argument_or_state_stands_apart() -> None:
    first = make(1, "make a")
    preview = CommandPreview(command="make b", cwd="/home/u/src/app", parts=("make b",))
    for other in (
        make(2, "make b", risk=Risk.HIGH),
        make(2, "make b", reason="make asks (user rule 1)"),
        make(2, "make b", preview=preview.model_copy(update={"cwd": "/elsewhere"})),
        make(2, "make b", preview=preview.model_copy(update={"warnings": ("it writes",)})),
        make(2, "make b", arguments={"command": "make b", "background": True}),
        replace(make(2, "make b"), state=ConfirmationState.DENIED),
    ):
        assert len(group_questions([first, other])) == 2
    assert len(group_questions([first, make(2, "make b")])) == 1


def test_a_single_question_keeps_its_own_row() -> None:
    [group] = group_questions([make(1, "make a")])
    assert isinstance(group, QuestionGroup) and group.row_id == "confirm-1"
