"""The environment of commands: what of ours a child may see (001 R5.8).

Order: what is never passed, by name or by value; then what is always passed; then the person's own list; then
everything that does not look like a secret. Names alone are not enough: a secret under an innocent name goes too.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping

from ollm_tui.core.fence.secrets import looks_secret, variable_looks_secret

MARK = "RUN_BY_OLLM_TUI"
"""Set for every command to a value of its own: processes that left its session are found by it."""

_NEVER = re.compile(
    r"""
      LD_.* | DYLD_.* | BASH_ENV | ENV | BASH_FUNC_.* | PROMPT_COMMAND | PS4 | SHELLOPTS | BASHOPTS | IFS
    | GIT_(?!(AUTHOR|COMMITTER)_(NAME|EMAIL|DATE)$).* | .*_ASKPASS | PYTHONSTARTUP | PYTHONHOME | PERL5.* | RUBYOPT
    | JAVA_TOOL_OPTIONS | NODE_OPTIONS | LESSOPEN | LESSCLOSE | RIPGREP_CONFIG_PATH | ZDOTDIR
    | CDPATH | GLOBIGNORE | EXECIGNORE | BASH_COMPAT | BASH_LOADABLES_PATH | BASH_XTRACEFD | POSIXLY_CORRECT
    | GREP_OPTIONS | TAR_OPTIONS | MAKEFILES
    | SSH_AUTH_SOCK | SSH_AGENT_PID | GPG_AGENT_INFO | DBUS_.* | XAUTHORITY | XDG_RUNTIME_DIR | DOCKER_HOST | KUBECONFIG
    | OLLM_.* | TEXTUAL.*
    """,
    re.VERBOSE | re.IGNORECASE | re.DOTALL,
)
"""Code loaders, what makes a command mean something else than it was judged as, agent sockets, our own settings."""

_PASSABLE = frozenset({"LD_LIBRARY_PATH"})
"""The one name above that the person's own list can let through."""

_ALWAYS = re.compile(
    r"""
      PATH | HOME | USER | LOGNAME | SHELL | TERM | COLORTERM | LANG | LANGUAGE | LC_[A-Z]+ | TZ | PWD | OLDPWD | SHLVL
    | TMPDIR | TEMP | TMP | COLUMNS | LINES | NO_COLOR | FORCE_COLOR | CLICOLOR\w* | CI | EDITOR | VISUAL
    | XDG_(CACHE|CONFIG|DATA|STATE)_HOME | VIRTUAL_ENV | CONDA_(PREFIX|DEFAULT_ENV) | PYENV_ROOT
    | PYTHON(UNBUFFERED|DONTWRITEBYTECODE|IOENCODING|UTF8|HASHSEED) | NVM_DIR | NODE_ENV
    | GOPATH | GOROOT | GOCACHE | GOMODCACHE | CARGO_HOME | RUSTUP_HOME | JAVA_HOME | ANDROID_HOME | GEM_HOME
    | CC | CXX | CFLAGS | CXXFLAGS | LDFLAGS | MAKEFLAGS | PKG_CONFIG_PATH | CMAKE_\w+
    | SSL_CERT_(FILE|DIR) | REQUESTS_CA_BUNDLE | CURL_CA_BUNDLE | NODE_EXTRA_CA_CERTS
    | SOURCE_DATE_EPOCH | DEBIAN_FRONTEND | GIT_(AUTHOR|COMMITTER)_(NAME|EMAIL|DATE)
    """,
    re.VERBOSE,
)
"""Ordinary names that are passed although a part of them may read like a secret."""

_PROXY_NAME = re.compile(r"\w*_proxy", re.IGNORECASE)

NOBODY_ANSWERS: Mapping[str, str] = {
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "MANPAGER": "cat",
    "SYSTEMD_PAGER": "",
    "LESS": "-FRX",
    "GIT_TERMINAL_PROMPT": "0",
    "DEBIAN_FRONTEND": "noninteractive",
    "PYTHONUNBUFFERED": "1",
    "NO_COLOR": "1",
    "TERM": "dumb",
}
"""Pagers, prompts and colours off where no person sits at the command's terminal."""

SOMEBODY_WATCHES: Mapping[str, str] = {
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "MANPAGER": "cat",
    "SYSTEMD_PAGER": "",
    "LESS": "-FRX",
    "PYTHONUNBUFFERED": "1",
    "TERM": "xterm-256color",
}
"""With a person at the terminal prompts and colours stay; pagers are off still, since the model waits for the end."""


def variable_is_secret(name: str, value: str) -> bool:
    """Return whether no command gets a variable, by its name (the wide pattern) or its value."""
    if looks_secret(value):
        return True
    if _PROXY_NAME.fullmatch(name):
        return "@" in value
    return not _ALWAYS.fullmatch(name) and variable_looks_secret(name)


def is_never_passed(name: str) -> bool:
    """Return whether a name loads code, leads to an agent's socket, or is a setting of ours."""
    return bool(_NEVER.fullmatch(name))


def cleaned(source: Mapping[str, str], passed: Collection[str] = ()) -> dict[str, str]:
    """Return what of `source` a command may see. `passed` are names let through although they look like secrets;
    values that are secrets, and what is never passed, do not get through by it."""
    return {name: value for name, value in source.items() if _may_pass(name, value, passed)}


def command_environment(
    source: Mapping[str, str], *, attended: bool, cwd: str, mark: str, passed: Collection[str] = ()
) -> dict[str, str]:
    """Return the whole environment of an agent's command. `mark` tells its processes from all others.

    COLUMNS and LINES are left to the terminal's size.
    """
    environment = cleaned(source, passed)
    environment.update(SOMEBODY_WATCHES if attended else NOBODY_ANSWERS)
    environment.pop("COLUMNS", None)
    environment.pop("LINES", None)
    environment["PWD"] = cwd
    environment[MARK] = mark
    return environment


def person_environment(source: Mapping[str, str], mark: str) -> dict[str, str]:
    """Return the environment of the person's own shell: theirs, with our terminal's description."""
    environment = {name: value for name, value in source.items() if name not in ("COLUMNS", "LINES")}
    environment.update({"TERM": "xterm-256color", "COLORTERM": "truecolor", "TERM_PROGRAM": "ollm-tui", MARK: mark})
    return environment


def own_environment() -> dict[str, str]:
    """Return this process's environment."""
    return dict(os.environ)


def _may_pass(name: str, value: str, passed: Collection[str]) -> bool:
    if is_never_passed(name) and not (name in _PASSABLE and name in passed):
        return False
    if name in passed:
        return looks_secret(value) is None
    return not variable_is_secret(name, value)
