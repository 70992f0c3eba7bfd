"""Which files git says no more of than that they differ, in whatever commit they are: attributes for the cage."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from ollm_tui.core.fence.workspace import Workspace

CREDENTIAL_ATTRIBUTES = Path(__file__).with_name("credentials.gitattributes")
"""Those for files with the names of credentials."""


@lru_cache(maxsize=1)
def credential_attributes() -> bytes:
    """Return what stands in CREDENTIAL_ATTRIBUTES."""
    return CREDENTIAL_ATTRIBUTES.read_bytes()


def hidden_contents(fence: Workspace) -> bytes:
    """Return the attributes of credentials, and of what the person protects besides."""
    patterns = fence.own_protection.patterns
    if not patterns:
        return credential_attributes()
    around = (each for each in (fence.root, *fence.root.parents) if (each / ".git").exists())
    within = fence.root.relative_to(next(around, fence.root)).as_posix()
    start = "" if within == "." else re.sub(r"([\\*?\[])", r"\\\1", within) + "/"
    own = (line for pattern in patterns for line in _lines(pattern, start))
    return credential_attributes() + "".join(f"{line} -diff\n" for line in own).encode()


def _lines(pattern: str, start: str) -> Iterator[str]:
    """Yield a pattern of `.gitignore` as those of attributes; what it takes out again stays hidden."""
    body = pattern.strip().strip("/")
    if not body or pattern.startswith(("#", "!")):
        return
    anchored = "/" in pattern.strip().rstrip("/")
    path = f"/{start}{body}" if anchored else f"**/{body}"
    for each in (path, f"{path}/**"):
        yield '"' + each.replace("\\", "\\\\").replace('"', '\\"') + '"'
