"""The file of approved tool definitions, each bound to its server."""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from ollm_tui.core.base.app_dirs import config_dir
from ollm_tui.core.base.escape import visible_block
from ollm_tui.core.files.atomic import replace_text
from ollm_tui.mcp_host.frames import ToolDefinition


class _Approved(BaseModel):
    """The definition of a tool as a person saw it."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    server: str
    """The server's identity."""
    definition: str


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    tools: dict[str, _Approved] = {}


@dataclass
class ApprovedTools:
    """The record, in the user's config directory; with a `fault` nothing counts as approved."""

    path: Path = field(default_factory=lambda: config_dir() / "mcp-approved.json")
    fault: str = ""
    _tools: Mapping[str, _Approved] = field(default_factory=dict[str, _Approved])

    def read(self) -> None:
        """Read the record. Blocks."""
        try:
            self._tools, self.fault = _Record.model_validate_json(self.path.read_bytes()).tools, ""
        except FileNotFoundError:
            self._tools, self.fault = {}, ""
        except (OSError, ValidationError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is damaged"
            self._tools = {}
            self.fault = f"{self.path} cannot be read ({reason}). Move it away to start a new record."

    def why_not(self, name: str, server: str, definition: ToolDefinition) -> str:
        """Return why a call of this tool has to ask; empty where its definition was approved."""
        known = self._tools.get(name)
        if known is None:
            return "its definition is new: nobody has approved it" if not self.fault else self.fault
        if known.server != server:
            return "it comes from another server than the one that was approved"
        if known.definition != wording(definition):
            return "its definition is not the one that was approved"
        return ""

    def difference(self, name: str, definition: ToolDefinition) -> str:
        """Return what a person should see of a definition: all of it, or its changes since it was approved."""
        known = self._tools.get(name)
        now = wording(definition)
        if known is None or known.definition == now:
            return visible_block(now)
        lines = difflib.unified_diff(known.definition.splitlines(), now.splitlines(), "approved", "now", lineterm="")
        return visible_block("\n".join(lines))

    def approve(self, server: str, tools: Iterable[tuple[str, ToolDefinition]]) -> None:
        """Approve the definitions of these tools as they are. Blocks; raises OSError, ValueError."""
        self.read()
        if self.fault:
            raise ValueError(self.fault)
        added = {name: _Approved(server=server, definition=wording(definition)) for name, definition in tools}
        record = _Record(tools={**self._tools, **added})
        replace_text(self.path, f"{record.model_dump_json(indent=1)}\n")
        self._tools = record.tools


def wording(definition: ToolDefinition) -> str:
    """Return a definition as a person reads it, the same for the same meaning."""
    hints = {"reads only": definition.read_only, "may destroy": definition.destructive}
    said = "; ".join(f"{hint}: {'yes' if given else 'no'}" for hint, given in hints.items() if given is not None)
    schema = json.dumps(definition.input_schema, indent=1, sort_keys=True, ensure_ascii=False)
    head = f"{definition.name}{f' ({definition.title})' if definition.title else ''}"
    return "\n".join([head, *([f"The server says: {said}"] if said else []), definition.description, schema])


def digest_of(definition: ToolDefinition) -> str:
    """Return what a yes to a call is bound to."""
    return hashlib.sha256(wording(definition).encode("utf-8", "surrogatepass")).hexdigest()
