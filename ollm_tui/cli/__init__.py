"""The command line; this file is all that `--version` loads."""

import resource
import sys

from ollm_tui import __version__

LEAST_MEMORY = 96 << 20
"""Bytes of address space without which nothing is tried: libraries in Rust abort where an allocation fails."""

OUT_OF_MEMORY = ("can't start new thread", "failed to map segment", "cannot allocate memory")
"""What errors other than MemoryError say when memory is short, lower-case."""


def main(argv: list[str] | None = None) -> int:
    """Run `ollm-tui` and return its exit code; without `argv` this process is the program."""
    arguments = sys.argv[1:] if argv is None else argv
    if arguments in (["--version"], ["-V"]):
        print(f"ollm-tui {__version__}")
        return 0
    try:
        if 0 <= resource.getrlimit(resource.RLIMIT_AS)[0] < LEAST_MEMORY:  # -1 is no limit
            raise MemoryError
        from ollm_tui.cli.command_line import dispatch, hide_environment, replace_closed_streams, restore_signals

        if argv is None:
            hide_environment()
            restore_signals()
            replace_closed_streams()
        return dispatch(arguments)
    except Exception as error:
        if not _is_out_of_memory(error):
            raise
        sys.stderr.write(
            "ollm-tui: there is not enough memory, or too few threads are allowed. Close other programs, or raise the "
            "limits of this shell (ulimit -v, -u); a dashboard takes about 600 MB of address space.\n"
        )
        return 1


def _is_out_of_memory(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, MemoryError) or any(words in str(error).lower() for words in OUT_OF_MEMORY):
            return True
        error = error.__cause__ or error.__context__
    return False
