"""The prompt's history and draft as files, which know no widget."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path

from ollm_tui.core.base.app_dirs import state_dir

KEPT = 1_000
"""Messages that are remembered; the file may hold twice as many until the next start."""
MOST_CHARACTERS = 20_000
"""A longer message or draft is not kept: the sessions have it."""


@dataclass(frozen=True)
class StoredPrompts:
    """What an earlier prompt left: its messages, the oldest first, and its draft."""

    sent: tuple[str, ...] = ()
    draft: str = ""


class PromptHistory:
    """The files of one workspace. Every method blocks, and does nothing where the disk refuses."""

    def __init__(self, workspace: Path) -> None:
        folder = state_dir() / "prompts"
        name = hashlib.sha256(os.fsencode(workspace.resolve())).hexdigest()[:24]
        self._sent = folder / f"{name}.jsonl"
        self._draft = folder / f"{name}.draft"

    def load(self) -> StoredPrompts:
        """Return what was left, and take the draft: a second dashboard begins with none."""
        sent: list[str] = []
        lines = _read(self._sent).splitlines()
        for line in lines:
            try:
                text = json.loads(line)
            except ValueError:
                continue  # cut off, or not ours
            if isinstance(text, str):
                sent.append(text)
        if len(lines) > 2 * KEPT:
            _write(self._sent, "".join(f"{json.dumps(text)}\n" for text in sent[-KEPT:]))
        draft = _read(self._draft)
        if draft:
            _write(self._draft, "")
        return StoredPrompts(tuple(sent[-KEPT:]), draft)

    def add(self, text: str) -> None:
        """Remember a message that was sent; the draft was it."""
        if len(text) <= MOST_CHARACTERS:
            _write(self._sent, f"{json.dumps(text)}\n", append=True)
        self.keep_draft("")

    def keep_draft(self, text: str) -> None:
        """Keep a draft for the next start; none removes what was kept."""
        kept = text if text.strip() and len(text) <= MOST_CHARACTERS else ""
        if kept or self._draft.exists():
            _write(self._draft, kept)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _write(path: Path, text: str, *, append: bool = False) -> None:
    """Write a file that only the person can read."""
    how = os.O_APPEND if append else os.O_TRUNC
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | how, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(text.encode("utf-8", "replace"))
    except OSError:
        return
