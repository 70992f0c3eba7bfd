"""`ollm-tui help [TOPIC]`: the documentation on stdout."""

from __future__ import annotations

from ollm_tui.cli.arguments import command_parser, parse
from ollm_tui.cli.dispatch import ExitCode, UsageError
from ollm_tui.docs import UnknownTopicError, list_topics, read_topic


def run_command(argv: list[str]) -> int:
    """Print a topic, or the list of topics where none is named."""
    parser = command_parser("help", "Read the documentation.")
    parser.add_argument("topic", metavar="TOPIC", nargs="?", help="a topic; without one, all are listed")
    given = parse(parser, argv)
    if given.topic is None:
        _print_topics()
        return ExitCode.DONE
    try:
        text = read_topic(given.topic)
    except UnknownTopicError as error:
        hint = f"Did you mean {' or '.join(error.closest)}?" if error.closest else "`ollm-tui help` lists all topics."
        raise UsageError(f"{error}. {hint}") from None
    print(text, end="" if text.endswith("\n") else "\n")
    return ExitCode.DONE


def _print_topics() -> None:
    topics = list_topics()
    width = max(len(topic.name) for topic in topics)
    for topic in topics:
        print(f"{topic.name:<{width}}  {topic.summary}")
