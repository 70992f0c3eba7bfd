"""Recognise what looks like a secret, in texts, names and git's configuration; keep it from commands (001 R5.8).

A miss is possible. RE2 keeps hostile text from being slow. A secret under an innocent name is not passed either.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from itertools import islice

from ollm_tui.core.base.regex import compile_bytes

MASK = "***"
"""What stands for a secret in a shown text."""

_NAMED = (
    r"api[_ -]?key|access[_ -]?key|(?:secret|private|signing)[_ -]?key|token|secret|passw(?:or)?d|passphrase"
    r"|credentials?"
)
"""Words that mean a secret in ordinary text, too; "key" and "session" alone do not."""

_VARIABLE = (
    r"(?:^|_)(?:api_?key|keys?|tokens?|secrets?|passw(?:or)?d|pass|pwd|passphrase|credentials?|creds|auth|cookies?"
    r"|session|otp|seed|private|cert|dsn|webhook)(?:_|$)|api_?key|secret|passw"
    r"|^(?:.*_)?(?:database|redis|mongo(?:db)?|amqp|sqlalchemy(?:_database)?)_ur[li]$"
)

_NAME_IN_TEXT = rf"(?i)(?:{_NAMED})"
_VARIABLE_NAME = rf"(?i){_VARIABLE}"

_NOT_SECRET = frozenset({"PWD", "OLDPWD", "SSL_CERT_FILE", "SSL_CERT_DIR"})

_KINDS: tuple[tuple[str, str], ...] = (
    ("a private key", r"()-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?s:.*?)(?:-----END [A-Z0-9 ]{0,40}-----|\z)"),
    ("an address with a password", r"\b([a-zA-Z][a-zA-Z0-9+.-]{1,20}://)[^\s/:@]*:[^\s/@]+"),
    ("an address with a token", r"\b([a-zA-Z][a-zA-Z0-9+.-]{1,20}://)[^\s/:@]{16,}"),
    ("a GitHub token", r"()\b(?:gh[pousr]_[A-Za-z0-9]{16,}|github_pat_[A-Za-z0-9_]{16,})"),
    ("a GitLab token", r"()\bglpat-[A-Za-z0-9_-]{16,}"),
    ("an API key", r"()\bsk-[A-Za-z0-9_-]{16,}"),
    ("an AWS access key", r"()\b(?:AKIA|ASIA)[A-Z0-9]{12,}\b"),
    ("a Google API key", r"()\bAIza[A-Za-z0-9_-]{30,}"),
    ("a Slack token", r"()\bxox[abeoprs]-[A-Za-z0-9-]{10,}"),
    ("a signed web token", r"()\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"),
    ("a Hugging Face token", r"()\bhf_[A-Za-z0-9]{16,}"),
    ("an npm token", r"()\bnpm_[A-Za-z0-9]{16,}"),
    ("a PyPI token", r"()\bpypi-[A-Za-z0-9_-]{16,}"),
    ("a password or key by its name", rf"(?i)((?:{_NAMED})[\"']?\s{{0,3}}[:=]\s{{0,3}}[\"']?)[^\s\"'*]{{8,}}"),
)
"""What a kind is called, and how it looks; the first group is what `mask` leaves standing.

The second, added below, is where the text goes on: an address counts only where `@` follows its password.
"""


@cache
def _kinds() -> tuple[tuple[str, re.Pattern[bytes]], ...]:
    return tuple(
        (what, _compiled(pattern + ("(@)" if what.startswith("an address") else "()"))) for what, pattern in _KINDS
    )


@cache
def _compiled(pattern: str) -> re.Pattern[bytes]:
    return compile_bytes(pattern.encode(), utf_8=True)


def looks_secret(text: str) -> str | None:
    """Return what secret `text` seems to hold ("a GitHub token"), or None."""
    searched = _encoded(text)
    return next((what for what, pattern in _kinds() if pattern.search(searched)), None)


def looks_secret_under(name: str, value: str) -> str | None:
    """As `looks_secret`, and also a single word of 6 characters or more under a name that says password or key."""
    found = looks_secret(value)
    if found is None and len(value.split()) == 1 and len(value.strip()) >= 6:
        named = _compiled(_NAME_IN_TEXT).search(_encoded(name))
        return "a password or key by its name" if named else None
    return found


def variable_looks_secret(name: str) -> bool:
    """Return whether an environment variable of that name is likely to hold a secret."""
    return name.upper() not in _NOT_SECRET and _compiled(_VARIABLE_NAME).search(_encoded(name)) is not None


def mask(text: str) -> str:
    """`text` with what looks like a secret replaced by `***`; names and addresses around it stay readable."""
    masked = _encoded(text)
    for _, pattern in _kinds():
        pieces: list[bytes] = []
        done = 0
        while found := pattern.search(masked, done):
            pieces += (masked[done : found.end(1)], MASK.encode())
            done = found.start(2)
        masked = b"".join((*pieces, masked[done:]))
    return masked.decode("utf-8")


def _encoded(text: str) -> bytes:
    """RE2 works on UTF-8: half of a surrogate pair becomes `?`."""
    return text.encode("utf-8", "replace")


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
    """Return what of `source` a command may see; `passed` names get through although they look like secrets."""
    return {name: value for name, value in source.items() if _may_pass(name, value, passed)}


def command_environment(
    source: Mapping[str, str], *, attended: bool, cwd: str, mark: str, passed: Collection[str] = ()
) -> dict[str, str]:
    """Return an agent command's whole environment but COLUMNS and LINES; `mark` tells its processes from others."""
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


_SECRET = re.compile(
    r"""
      ://[^/\s:@"]*:(?P<password>[^/\s@"]+)@ | ://(?P<user>[^/\s:@"]{16,})@
    | ^\s*(?:\w*token|\w*pass(?:word)?)\s*=\s*"?(?P<named>.+?)"?\s*$
    | ^\s*extraheader\s*=\s*"?[^:\n]*:\s*(?:(?:basic|bearer|token)\s+)?(?P<header>.+?)"?\s*$
    """,
    re.IGNORECASE | re.MULTILINE | re.VERBOSE,
)
MAX_SECRETS = 100
MAX_BYTES = 1_000_000
_SHORT = 6
"""Characters of a password that is masked only where it stands in an address; others stand nowhere by chance."""

_FILES = frozenset({"config", "config.worktree"})


def secrets_in(text: str) -> dict[str, str]:
    """Return what is replaced by what, the longest first: one may hold another."""
    found: dict[str, str] = {}
    for match in islice(_SECRET.finditer(text), MAX_SECRETS):
        secret = match[match.lastgroup or 0]
        if match.lastgroup == "password":
            found[f":{secret}@"] = f":{MASK}@"
        if len(secret) >= _SHORT:
            found[secret] = MASK
    return dict(sorted(found.items(), key=lambda entry: -len(entry[0])))


def is_secret_configuration(path: str, parts: Sequence[str]) -> bool:
    """Return whether a path below a root, of these components, is a configuration of git that holds a password."""
    if parts[-1] not in _FILES or ".git" not in parts:
        return False
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as opened:
            content = opened.read(MAX_BYTES + 1)
    except OSError:
        return False  # nothing that could be read
    return len(content) > MAX_BYTES or bool(secrets_in(content.decode("utf-8", "replace")))
