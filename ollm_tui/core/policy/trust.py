"""Which repositories' own config files a person trusts: by path and by the hash of what the file said then."""

from __future__ import annotations

import hashlib
import json
import stat
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from ollm_tui.core.base.own_files import replace_text
from ollm_tui.core.base.places import config_folder

REPOSITORY_CONFIG = Path(".ollm") / "config.toml"


class Trust(StrEnum):
    """How a folder's own config file stands."""

    NO_FILE = "no file"
    TRUSTED = "trusted"
    UNTRUSTED = "untrusted"
    CHANGED = "changed since it was trusted"


@dataclass(frozen=True)
class TrustBook:
    """The record of trusted files, kept in the user's config folder and never in a workspace."""

    path: Path

    @classmethod
    def of_user(cls) -> TrustBook:
        return cls(config_folder() / "trusted.json")

    def state_of(self, workspace: Path) -> Trust:
        """Whether the workspace's file counts. Raises ValueError where the record itself cannot be read."""
        found = _hash(workspace / REPOSITORY_CONFIG)
        if found is None:
            return Trust.NO_FILE
        known = self._read().get(str(workspace))
        if known is None:
            return Trust.UNTRUSTED
        return Trust.TRUSTED if known == found else Trust.CHANGED

    def trust(self, workspace: Path, shown: bytes | None = None) -> Trust:
        """Trust the file as it is now, or only where it still says what a person was shown: CHANGED where it does not.

        Raises OSError, and ValueError where the record itself cannot be read.
        """
        found = _hash(workspace / REPOSITORY_CONFIG)
        if found is None:
            return Trust.NO_FILE
        if shown is not None and found != hashlib.sha256(shown).hexdigest():
            return Trust.CHANGED
        record = {**self._read(), str(workspace): found}
        replace_text(self.path, json.dumps(record, indent=2, sort_keys=True) + "\n")
        return Trust.TRUSTED

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


def _hash(path: Path) -> str | None:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return None
