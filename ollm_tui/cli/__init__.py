"""The command line. This file is all that `--version` loads: everything else waits in `dispatch`."""

import sys

from ollm_tui import __version__


def main(argv: list[str] | None = None) -> int:
    """Run `ollm-tui`; returns the exit code (contract section 0). Without `argv` this process is the program."""
    arguments = sys.argv[1:] if argv is None else argv
    if arguments in (["--version"], ["-V"]):
        print(f"ollm-tui {__version__}")
        return 0
    from ollm_tui.cli.dispatch import dispatch
    from ollm_tui.cli.inherited import let_commands_have_their_signals, stand_in_for_closed_streams

    if argv is None:
        let_commands_have_their_signals()
        stand_in_for_closed_streams()
    return dispatch(arguments)
