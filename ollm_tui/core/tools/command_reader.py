"""The protocol for facts about command lines, implemented by the policy (`core/policy/command_warnings.py`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ollm_tui.core.fence.workspace import Workspace


@dataclass(frozen=True)
class CommandFacts:
    """The simple commands of a line, and the warnings for its confirmation."""

    parts: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


class CommandReader(Protocol):
    """Reads command lines as the policy does."""

    def facts(self, command: str, workspace: Workspace | None = None, cwd: str = "") -> CommandFacts:
        """Return what a confirmation shows about a line; reads the disk and blocks."""
        ...

    def exit_code_is_answer(self, command: str, code: int | None) -> bool:
        """Return whether the exit code is an answer ("not found", "differs") rather than a failure."""
        ...
