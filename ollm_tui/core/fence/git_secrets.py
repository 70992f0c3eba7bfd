"""Passwords and tokens in git's configuration files, and whether a path is such a file."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from itertools import islice

from ollm_tui.core.fence.secrets import MASK

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
