"""The options of a command line as plain values, which is all that the first frame needs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Options:
    """Flags, which outrank files and variables; None where not given."""

    workspace: Path | None = None
    add_dirs: tuple[Path, ...] = ()
    policy_file: Path | None = None
    config_file: Path | None = None
    mode: str | None = None
    provider: str | None = None
    model: str | None = None
    base_url: str | None = None
    script: Path | None = None
    agent: str | None = None
    """The command of an agent that speaks the Agent Client Protocol, in the place of ours."""
    theme: str | None = None
    mouse: bool | None = None
    reduced_motion: bool | None = None
    resume: str | None = None
    """The beginning of the id of a session to go on with."""
    continue_last: bool = False
    """Go on with the last session of the workspace."""
    fork: bool = False
    """Go on in a copy of that session."""
    max_rounds: int | None = None
    """Requests to the model that one message may lead to."""
    prompt: str | None = None
    """A first message, sent as soon as the dashboard is ready."""
