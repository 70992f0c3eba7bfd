"""All files of a workspace that act once the person trusts them, beside its config file."""

from __future__ import annotations

from ollm_tui.agent.hooks.entries import untrusted_scripts
from ollm_tui.agent.prompt_files import read_prompt_files
from ollm_tui.core.fence.workspace import Workspace
from ollm_tui.core.policy.instruction_files import InstructionFile, untrusted_instructions
from ollm_tui.core.policy.repository_trust import RepositoryConfig, TrustStore


def untrusted_files(workspace: Workspace, own: RepositoryConfig, store: TrustStore) -> list[InstructionFile]:
    """Return instructions, skills, commands and scripts of hooks that a person could trust. Raises ValueError."""
    return [
        *untrusted_instructions(workspace, store),
        *read_prompt_files(workspace, store).untrusted,
        *untrusted_scripts(workspace, own, store),
    ]
