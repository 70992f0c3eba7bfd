"""The command line: the command word among the shared options, the parsers, exit codes, and the way to each command."""

from __future__ import annotations

import argparse
import io
import os
import signal
import sys
from collections.abc import Collection, Sequence
from enum import IntEnum
from importlib import import_module
from pathlib import Path
from types import FrameType

from ollm_tui import __version__
from ollm_tui.options import Options

COMMANDS = {
    "run": "run:run_command",
    "tool": "tool:run_command",
    "policy": "policy:run_command",
    "doctor": "doctor:run_command",
    "config": "config:run_config",
    "trust": "config:run_trust",
    "sessions": "sessions:run_command",
    "trash": "data:run_trash",
    "undo": "undo:run_command",
    "memory": "data:run_memory",
    "sandbox": "sandbox:run_command",
    "hooks": "hooks:run_command",
    "mcp": "mcp:run_command",
    "plugin": "plugin:run_command",
    "acp": "acp:run_command",
    "attach": "attach:run_command",
    "serve": "serve:run_command",
    "skills": "prompt_files:run_skills",
    "commands": "prompt_files:run_commands",
    "models": "models:run_command",
    "help": "command_line:run_help",
}
"""Command words, and the module of this package and its function that run each; imported only when it runs."""
COMMANDS_HELP = (
    "Further commands: run, tool, policy, doctor, config, trust, sessions, trash, undo, memory, sandbox,"
    " hooks, mcp, plugin, acp, attach, serve, skills, commands, models, help; each takes --help."
)
MODES = ("ask", "auto-edit", "plan", "yolo")
PROVIDERS = ("ollama", "openai", "embedded", "offline", "scripted")

_WITH_VALUE = frozenset(
    {
        *("-C", "--workspace", "--add-dir", "--policy", "--mode", "--config"),
        *("--provider", "--model", "--base-url", "--script", "--agent", "--theme", "--resume"),
    }
)


class ExitCode(IntEnum):
    """The process's exit code."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    DENIED = 3
    INTERRUPTED = 130


class UsageError(Exception):
    """A command line or configuration that cannot be used; told on stderr, with nothing on stdout."""


_SET_DUMPABLE = 4
"""The option of prctl(2)."""


class CommandInterruptedError(Exception):
    """The person stopped the command."""


def dispatch(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code."""
    stdout: object = sys.stdout
    if isinstance(stdout, io.TextIOWrapper):
        # What the locale cannot write is no reason to stop.
        stdout.reconfigure(errors="backslashreplace")  # pyright: ignore[reportUnknownMemberType]  # generic in its buffer
    try:
        command, rest = split_command(arguments, tuple(COMMANDS))
        if command is None:
            return run_dashboard(rest)
        from ollm_tui.core.base.log_file import open_log

        open_log()
        module, function = COMMANDS[command].split(":")
        return int(getattr(import_module(f"ollm_tui.cli.{module}"), function)(rest))
    except UsageError as error:
        print(f"ollm-tui: {error}", file=sys.stderr)
        return ExitCode.USAGE
    except (KeyboardInterrupt, CommandInterruptedError):
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        discard_stdout()
        return ExitCode.DONE


def discard_stdout() -> None:
    """Send what is still to be flushed nowhere: the reader has closed its end, which is not an error."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def hide_environment() -> None:
    """Keep commands from reading this process's variables and memory through /proc, which hold keys of the person.

    Linux alone; root can read everything. Programs that this one starts are not affected. Costs core dumps, and a
    debugger then needs root.
    """
    if sys.platform == "linux":
        import ctypes  # 4 ms that other systems need not wait

        ctypes.CDLL(None).prctl(_SET_DUMPABLE, 0, 0, 0, 0)


def restore_signals() -> None:
    """Let children have every signal, while what was ignored still does nothing here.

    A child ignores what its parent ignores (POSIX `exec`). Behind `nohup` or the `&` of a script, ctrl+c in the
    terminal pane would end nothing; and where SIGCHLD is ignored, every command seems to exit with 0.
    """
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGTSTP):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, _do_nothing)


def ending_signals() -> dict[signal.Signals, str]:
    """Return the signals that end what is running, each with its reason; behind `nohup` a hangup does not."""
    reasons = {signal.SIGINT: "interrupted by the person", signal.SIGTERM: "the process was told to end"}
    if signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:
        reasons[signal.SIGHUP] = "the terminal was closed"
    return reasons


def replace_closed_streams() -> None:
    """Open the null device where a standard stream is closed, so that no file of ours gets its number."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115  # open as long as the process runs


def _do_nothing(_number: int, _frame: FrameType | None) -> None:
    """Unlike SIG_IGN, a handler is not inherited by children."""


def dashboard_parser(
    name: str = "", description: str = "Supervise a local agent from one screen."
) -> argparse.ArgumentParser:
    """Return a parser of the dashboard's options."""
    parser = command_parser(name, description, provider_parser(), session_parser())
    parser.epilog = COMMANDS_HELP
    parser.add_argument("prompt", nargs="?", metavar="PROMPT", help="a first message; -- before one that is a command")
    parser.add_argument("--version", action="version", version=f"ollm-tui {__version__}")
    parser.add_argument("--theme", metavar="NAME", help="colours")
    parser.add_argument("--no-mouse", dest="mouse", action="store_const", const=False, help="leave the mouse alone")
    parser.add_argument("--reduced-motion", action="store_const", const=True, help="no animation")
    parser.add_argument("--plain", action="store_true", help="line by line, for screen readers and simple terminals")
    return parser


def run_dashboard(argv: list[str]) -> int:
    """Open the dashboard, which needs a terminal, or `serve` in its place."""
    given = parse(dashboard_parser(), argv)
    served = os.environ.get("TEXTUAL_DRIVER", "").startswith("ollm_tui.")
    streams = (sys.stdin, sys.stdout, sys.stderr)  # Textual draws on stderr
    if not served and not all(stream.isatty() for stream in streams):
        raise UsageError(
            "the dashboard needs a terminal on stdin, stdout and stderr. Without one, use: ollm-tui run PROMPT"
        )
    options = options_of(given)
    if options.resume is not None or options.continue_last or options.fork:
        _check_session(options)
    if given.plain:
        return int(import_module("ollm_tui.cli.plain").run_plain(options))
    from ollm_tui.tui.start import run_dashboard as run

    return run(options)


def _check_session(options: Options) -> None:
    """Raise UsageError before the screen is taken where there is no such session."""
    from ollm_tui.runtime.recorded_session import SessionError, SessionWish, check_session

    try:
        check_session(SessionWish.of(options), options.workspace or Path.cwd())
    except SessionError as error:
        raise UsageError(str(error)) from None


def run_help(argv: list[str]) -> int:
    """Print a topic, or the list of topics where none is named."""
    from ollm_tui.docs import UnknownTopicError, list_topics, read_topic

    parser = command_parser("help", "Read the documentation.")
    parser.add_argument("topic", metavar="TOPIC", nargs="?", help="a topic; without one, all are listed")
    given = parse(parser, argv)
    if given.topic is None:
        topics = list_topics()
        width = max(len(topic.name) for topic in topics)
        for topic in topics:
            print(f"{topic.name:<{width}}  {topic.summary}")
        return ExitCode.DONE
    try:
        text = read_topic(given.topic)
    except UnknownTopicError as error:
        hint = f"Did you mean {' or '.join(error.closest)}?" if error.closest else "`ollm-tui help` lists all topics."
        raise UsageError(f"{error}. {hint}") from None
    print(text, end="" if text.endswith("\n") else "\n")
    return ExitCode.DONE


def split_command(argv: Sequence[str], commands: Collection[str]) -> tuple[str | None, list[str]]:
    """Return the command word, if the first word that is not an option is one, and the rest.

    After `--` nothing is a command, so that a prompt can be a command word.
    """
    index = 0
    while index < len(argv):
        word = argv[index]
        if word == "--":
            break
        if word in _WITH_VALUE:
            index += 2
        elif word.startswith("-") and word != "-":
            index += 1
        elif word in commands:
            return word, [*argv[:index], *argv[index + 1 :]]
        else:
            break
    return None, list(argv)


def shared_parser() -> argparse.ArgumentParser:
    """Return a parser of the options that every command takes."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    group = parser.add_argument_group("shared options")
    group.add_argument("-C", "--workspace", metavar="DIR", type=Path, help="work in DIR instead of the current folder")
    group.add_argument(
        "--add-dir", metavar="DIR", type=Path, action="append", default=[], help="let tools reach DIR as well"
    )
    group.add_argument("--policy", metavar="FILE", type=Path, help="use this policy and no other")
    group.add_argument("--mode", choices=MODES, help="how much runs without asking")
    group.add_argument("--config", metavar="FILE", type=Path, help="use this config file instead of your own")
    return parser


def provider_parser() -> argparse.ArgumentParser:
    """Return a parser of the options that choose a model."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    group = parser.add_argument_group("model options")
    group.add_argument("--provider", choices=PROVIDERS, help="where the model is; found when not given")
    group.add_argument("--model", metavar="NAME", help="which model")
    group.add_argument("--base-url", metavar="URL", help="address of the model server")
    group.add_argument(
        "--agent", metavar="COMMAND", help='run this agent instead of ours, such as "gemini --acp" (ollm-tui[acp])'
    )
    group.add_argument("--script", metavar="FILE", type=Path, help="replies for --provider scripted")
    return parser


def session_parser() -> argparse.ArgumentParser:
    """Return a parser of the options that go on with an earlier session."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    group = parser.add_argument_group("session options")
    which = group.add_mutually_exclusive_group()
    which.add_argument(
        "--continue", dest="continue_last", action="store_true", help="go on with the last session of this workspace"
    )
    which.add_argument("--resume", metavar="ID", help="go on with this session; the beginning of its id is enough")
    group.add_argument("--fork", action="store_true", help="go on in a copy of it, which keeps the session as it is")
    return parser


def command_parser(name: str, description: str, *parents: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Return a parser for one command with its own options and the shared ones."""
    return argparse.ArgumentParser(
        prog=f"ollm-tui {name}".strip(),
        description=description,
        parents=[shared_parser(), *parents],
        allow_abbrev=False,
    )


def parse(parser: argparse.ArgumentParser, argv: Sequence[str]) -> argparse.Namespace:
    """Parse the shared options first, so that they may follow sub-commands too."""
    shared, rest = shared_parser().parse_known_args(argv)
    return parser.parse_args(rest, shared)


def options_of(given: argparse.Namespace) -> Options:
    """Return the options as values; flags that a command does not have are not given."""
    known = vars(given)
    return Options(
        workspace=given.workspace,
        add_dirs=tuple(given.add_dir),
        policy_file=given.policy,
        config_file=given.config,
        mode=given.mode,
        provider=known.get("provider"),
        model=known.get("model"),
        base_url=known.get("base_url"),
        script=known.get("script"),
        agent=known.get("agent"),
        theme=known.get("theme"),
        mouse=known.get("mouse"),
        reduced_motion=known.get("reduced_motion"),
        resume=known.get("resume"),
        continue_last=known.get("continue_last", False),
        fork=known.get("fork", False),
        max_rounds=known.get("max_rounds"),
        prompt=known.get("prompt"),
    )
