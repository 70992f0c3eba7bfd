"""All files of a workspace that act once the person trusts them, beside its config file."""

from __future__ import annotations

from ollm_tui.agent.hooks.entries import untrusted_scripts
from ollm_tui.agent.prompt_files import read_prompt_files
from ollm_tui.core.fence.workspace import Workspace
from ollm_tui.core.policy.instruction_files import InstructionFile, read_instructions, untrusted_instructions
from ollm_tui.core.policy.repository_trust import RepositoryConfig, TrustState, TrustStore


def untrusted_files(workspace: Workspace, own: RepositoryConfig, store: TrustStore) -> list[InstructionFile]:
    """Return instructions, skills, commands, hooks' scripts and MCP servers to be trusted. Raises ValueError."""
    servers = read_instructions(workspace, ".mcp.json", store)
    return [
        *untrusted_instructions(workspace, store),
        *read_prompt_files(workspace, store).untrusted,
        *untrusted_scripts(workspace, own, store),
        *([servers] if servers and not servers.refusal and servers.trust is not TrustState.TRUSTED else []),
    ]
