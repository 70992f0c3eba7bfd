"""Record which repositories' own config files a person trusts, by path and content hash."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from ollm_tui.core.base.app_dirs import config_dir
from ollm_tui.core.files.atomic import replace_text

REPOSITORY_CONFIG = Path(".ollm") / "config.toml"
MAX_BYTES = 1_000_000
"""A larger file is taken for none: nobody could read it before trusting it."""


class TrustState(StrEnum):
    """Whether a workspace's own config file is trusted."""

    NO_FILE = "no file"
    TRUSTED = "trusted"
    UNTRUSTED = "untrusted"
    CHANGED = "changed since it was trusted"


@dataclass(frozen=True)
class RepositoryConfig:
    """A workspace's config file as read once; `trust` holds for this `content` only."""

    path: Path
    trust: TrustState
    content: bytes = b""


@dataclass(frozen=True)
class TrustStore:
    """The record of trusted files, in the user's config directory, never in a workspace."""

    path: Path

    @classmethod
    def of_user(cls) -> TrustStore:
        """Return the user's record."""
        return cls(config_dir() / "trusted.json")

    def check(self, workspace: Path) -> RepositoryConfig:
        """Return the workspace's config file and whether it is trusted.

        Callers must use the returned content: read again, the file may differ. Raises ValueError for a bad record.
        """
        path = workspace / REPOSITORY_CONFIG
        content = _content(path)
        if content is None:
            return RepositoryConfig(path, TrustState.NO_FILE)
        known = self._read().get(str(workspace))
        if known is None:
            return RepositoryConfig(path, TrustState.UNTRUSTED, content)
        return RepositoryConfig(path, TrustState.TRUSTED if known == _hash(content) else TrustState.CHANGED, content)

    def trust(self, workspace: Path, shown: bytes | None = None) -> TrustState:
        """Trust the file as it is; CHANGED where it is not what was `shown`. Raises OSError, ValueError."""
        content = _content(workspace / REPOSITORY_CONFIG)
        if content is None:
            return TrustState.NO_FILE
        if shown is not None and content != shown:
            return TrustState.CHANGED
        self._save({str(workspace): _hash(content)})
        return TrustState.TRUSTED

    def state_of(self, path: Path, content: bytes) -> TrustState:
        """Return whether a file is trusted with this content. Raises ValueError for a bad record."""
        known = self._read().get(str(path))
        if known is None:
            return TrustState.UNTRUSTED
        return TrustState.TRUSTED if known == _hash(content) else TrustState.CHANGED

    def trust_content(self, path: Path, content: bytes) -> None:
        """Trust a file as long as it has this content. Raises OSError, ValueError."""
        self._save({str(path): _hash(content)})

    def _save(self, entries: dict[str, str]) -> None:
        record = {**self._read(), **entries}
        replace_text(self.path, json.dumps(record, indent=2, sort_keys=True) + "\n")

    def _read(self) -> dict[str, str]:
        try:
            if self.path.stat().st_mode & stat.S_IWOTH:
                raise ValueError(f"{self.path} may be written by every user of this machine. Run: chmod o-w on it.")
            record: object = json.loads(self.path.read_text("utf-8"))
        except FileNotFoundError:
            return {}
        except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
            raise ValueError(f"{self.path} cannot be read ({error}). Move it away to start a new record.") from None
        if not isinstance(record, dict):
            raise ValueError(f"{self.path} holds no record of trusted folders. Move it away to start a new one.")
        return {str(key): str(value) for key, value in record.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]  # JSON of any shape: str() makes it what it must be


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _content(path: Path) -> bytes | None:
    """Return the content; None for a missing file, a pipe, a device, or too much."""
    try:
        # Without O_NONBLOCK a pipe would hold the start until somebody writes into it.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return None
            with open(descriptor, "rb", closefd=False) as file:
                content = file.read(MAX_BYTES + 1)
        finally:
            os.close(descriptor)
    except OSError:
        return None
    return content if len(content) <= MAX_BYTES else None
