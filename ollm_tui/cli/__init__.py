"""The command line; this file is all that `--version` loads."""

import sys

from ollm_tui import __version__


def main(argv: list[str] | None = None) -> int:
    """Run `ollm-tui` and return its exit code; without `argv` this process is the program."""
    arguments = sys.argv[1:] if argv is None else argv
    if arguments in (["--version"], ["-V"]):
        print(f"ollm-tui {__version__}")
        return 0
    from ollm_tui.cli.command_line import dispatch, hide_environment, replace_closed_streams, restore_signals

    if argv is None:
        hide_environment()
        restore_signals()
        replace_closed_streams()
    return dispatch(arguments)
