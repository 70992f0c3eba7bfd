"""Recognising texts and names that look like secrets, so that they are asked about, masked, or kept from commands.

Looks are all there is to go by: a miss is possible, so nothing that must stay secret may rely on this alone.
All patterns are RE2's, so that a model's text cannot make them slow; the engine is loaded with the first look.
"""

from __future__ import annotations

from functools import cache

from ollm_tui.core.base.regex import BytesPattern, compile_bytes

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
def _kinds() -> tuple[tuple[str, BytesPattern], ...]:
    return tuple(
        (what, _compiled(pattern + ("(@)" if what.startswith("an address") else "()"))) for what, pattern in _KINDS
    )


@cache
def _compiled(pattern: str) -> BytesPattern:
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
