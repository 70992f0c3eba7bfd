"""Writing this program's own small files: whole, atomic, readable by their owner alone."""

from __future__ import annotations

import os
from pathlib import Path

from ollm_tui.core.base.atomic import replace_file


def replace_text(path: Path, text: str) -> None:
    """Put `text` in the place of the file; a new one gets mode 0600 and its folders are made. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    real = path.resolve()  # a link that a person set up (a dotfiles folder) stays one
    directory = os.open(real.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            like = os.stat(real.name, dir_fd=directory)
        except FileNotFoundError:
            like = None
        replace_file(directory, real.name, [text.encode()], like=like)
        if like is None:
            os.chmod(real.name, 0o600, dir_fd=directory)
    finally:
        os.close(directory)
