"""`ollm-tui help`: the documentation from the command line."""

from __future__ import annotations

import pytest

from ollm_tui.cli import main
from ollm_tui.docs import UnknownTopicError, list_topics, read_topic


def test_without_a_topic_every_topic_is_listed_with_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help"]) == 0
    printed = capsys.readouterr()
    assert [line.split()[0] for line in printed.out.splitlines()] == [topic.name for topic in list_topics()]
    assert all(len(line.split(maxsplit=1)) == 2 for line in printed.out.splitlines())
    assert printed.err == ""


def test_a_topic_is_printed_as_it_is_written(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help", "requirements"]) == 0
    assert capsys.readouterr().out == read_topic("requirements")


def test_an_unknown_topic_is_a_usage_error_that_names_the_closest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help", "requirement"]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "'requirement'" in printed.err and "Did you mean requirements?" in printed.err


def test_a_topic_that_is_like_no_other_points_to_the_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help", "xyzzyxyzzy"]) == 2
    assert "`ollm-tui help` lists all topics" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["Requirements", "requirements.md", " requirements "])
def test_case_and_suffix_of_a_topic_do_not_matter(name: str) -> None:
    assert read_topic(name) == read_topic("requirements")


@pytest.mark.parametrize("name", ["../config", "/etc/passwd", "__init__", ""])
def test_only_pages_can_be_read(name: str) -> None:
    with pytest.raises(UnknownTopicError):
        read_topic(name)


def test_every_topic_has_a_title_and_a_summary_of_one_line() -> None:
    for topic in list_topics():
        assert topic.title and topic.summary and "\n" not in topic.summary, topic
        assert len(topic.summary) <= 80, topic
