"""Start the person's own shell, interactive and with marks around its commands."""

from __future__ import annotations

import os
import pwd
import resource
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from ptyprocess import PtyProcess, PtyProcessError  # pyright: ignore[reportMissingTypeStubs]  # it has none

from ollm_tui.core.shell.pty_process import BASH, ChildProcess, StartError, limits_before


def _prepare_shell(cwd: Path) -> None:
    """Go to the shell's directory, with the limits the person had; runs in the child."""
    os.chdir(cwd)
    for kind, limits in limits_before.items():
        with suppress(OSError, ValueError):
            resource.setrlimit(kind, limits)


# Marks: OSC 133 (prompt A, command line B, output C, end with exit code D), OSC 7 (directory).

_BASH_START = r"""
[ -r ~/.bashrc ] && . ~/.bashrc
__ollm_ended() {
  local status=$?
  printf '\e]133;D;%s\a\e]7;file://%s%s\a' "$status" "${HOSTNAME-}" "${PWD//\%/%25}"
  return $status
}
__ollm_mark() {
  local status=$?
  case $PS1 in *133\;A*) ;; *) PS1='\[\e]133;A\a\]'"$PS1"'\[\e]133;B\a\]' ;; esac
  return $status
}
if ((BASH_VERSINFO[0] * 100 + BASH_VERSINFO[1] >= 501)); then
  PROMPT_COMMAND=(__ollm_ended "${PROMPT_COMMAND[@]}" __ollm_mark)
else
  PROMPT_COMMAND=__ollm_ended$'\n'"${PROMPT_COMMAND-}"$'\n'__ollm_mark
fi
PS0="${PS0-}"'\e]133;C\a'
"""

_ZSH_START = r"""
ZDOTDIR="${OLLM_USER_ZDOTDIR:-$HOME}"
unset OLLM_USER_ZDOTDIR
[ -r "$ZDOTDIR/.zshenv" ] && . "$ZDOTDIR/.zshenv"
[ -r "$ZDOTDIR/.zshrc" ] && . "$ZDOTDIR/.zshrc"
__ollm_ended() { printf '\e]133;D;%s\a\e]7;file://%s%s\a' "$?" "$HOST" "${PWD//\%/%25}" }
__ollm_mark() { [[ $PS1 == *133\;A* ]] || PS1=$'%{\e]133;A\a%}'"$PS1"$'%{\e]133;B\a%}' }
__ollm_begun() { printf '\e]133;C\a' }
precmd_functions=(__ollm_ended $precmd_functions __ollm_mark)
preexec_functions+=(__ollm_begun)
"""


class UserShell(ChildProcess):
    """A shell that ptyprocess started; its sleeping calls are only made in `close`, in the command's own thread."""

    def __init__(self, shell: PtyProcess) -> None:
        pid, end = int(shell.pid), int(shell.fd)  # pyright: ignore[reportUnknownArgumentType]  # the package is untyped
        super().__init__(pid, end, f"the terminal of {pid}", takes_input=True)
        self._shell = shell
        with suppress(OSError):
            os.set_inheritable(self.end, False)

    def reap(self) -> int | None:
        """Return the exit code if it has ended; never wait."""
        if self._shell.isalive():
            return None
        signal = self._shell.signalstatus
        return -signal if signal is not None else self._shell.exitstatus

    def close(self) -> None:
        """End the shell. Blocks."""
        with suppress(OSError, PtyProcessError):
            self._shell.close(force=True)

    def release(self) -> None:
        """Refuse: the person's shell ends with the program."""
        raise AssertionError("the person's shell ends with the program")


def usual_shell(environment: Mapping[str, str]) -> str:
    """Return the person's shell: $SHELL, else the one of the account, else bash."""
    try:
        account_shell = pwd.getpwuid(os.getuid()).pw_shell
    except KeyError:
        account_shell = ""
    for candidate in (environment.get("SHELL", ""), account_shell, BASH, "/bin/sh"):
        if candidate and os.access(candidate, os.X_OK):
            return candidate
    raise StartError("No shell was found: set SHELL to one.")


def start_person_shell(
    shell: str, cwd: Path, environment: Mapping[str, str], columns: int, lines: int, folder: Path
) -> UserShell:
    """Start `shell` interactively; start files for the marks are written into `folder`. Raises StartError."""
    environment = dict(environment)
    argv = [shell, "-i"]
    try:
        match Path(shell).name:
            case "bash":
                start = folder / "bash-start"
                start.write_text(_BASH_START, "utf-8")
                argv = [shell, "--rcfile", str(start), "-i"]
            case "zsh":
                own = folder / "zsh"
                own.mkdir(exist_ok=True)
                (own / ".zshrc").write_text(_ZSH_START, "utf-8")
                environment["OLLM_USER_ZDOTDIR"] = environment.get("ZDOTDIR", "")
                environment["ZDOTDIR"] = str(own)
            case _:
                pass
        process = PtyProcess.spawn(  # pyright: ignore[reportUnknownMemberType]  # the package is untyped
            argv,
            env=environment,
            dimensions=(lines, columns),
            # Its own `cwd` lets a child that can not go there run on as a copy of this process.
            preexec_fn=lambda: _prepare_shell(cwd),
        )
    except (OSError, ValueError) as error:
        raise StartError(f"{shell}: {error}. The shell was not started.") from None
    return UserShell(process)
