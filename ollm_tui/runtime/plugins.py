"""Register the built-in tools and those of installed plug-ins."""

from __future__ import annotations

import logging
import re
from dataclasses import replace
from importlib.metadata import EntryPoint, entry_points

from ollm_tui.core.base.escape import visible
from ollm_tui.core.tools.base import AnyTool, Tool
from ollm_tui.core.tools.builtin import builtin_tools
from ollm_tui.core.tools.registry import ALIASES, ToolRegistry, folded_name

log = logging.getLogger(__name__)

PLUGIN_GROUP = "ollm_tui.tools"
"""The entry points under which packages offer tools."""

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")


def load_registry(*, browser_without_sandbox: bool = False) -> tuple[ToolRegistry, list[str]]:
    """Return a registry with all tools that work here, and one line for each plug-in that was left out."""
    registry = ToolRegistry()
    for tool in builtin_tools(browser_without_sandbox=browser_without_sandbox):
        registry.register(tool)
    errors: list[str] = []
    for entry in sorted(entry_points(group=PLUGIN_GROUP), key=lambda entry: entry.name):
        try:
            registry.register(_plugin_tool(entry, registry))
        except (Exception, SystemExit) as error:  # whatever loading a plug-in raises concerns that plug-in alone
            log.debug("the plug-in %s failed", entry.name, exc_info=True)
            reason = visible(f"{type(error).__name__}: {error}".splitlines()[0][:500])
            errors.append(f"The plug-in {visible(entry.name)} ({visible(entry.value)}) is left out: {reason}.")
    return registry, errors


def _plugin_tool(entry: EntryPoint, registry: ToolRegistry) -> AnyTool:
    loaded: object = entry.load()
    if not isinstance(loaded, Tool):
        raise TypeError(f"it is a {type(loaded).__name__}, not a Tool")
    if not _NAME.fullmatch(loaded.name):
        raise ValueError(f"{visible(loaded.name[:80])!r} is not a name that a model can call")
    taken = {folded_name(name): name for name in (*ALIASES, *(tool.name for tool in registry.list()))}
    if folded_name(loaded.name) in taken:  # what a policy says of one would be about the other
        raise ValueError(f"its name {loaded.name} already stands for {taken[folded_name(loaded.name)]}")
    return replace(loaded, plugin=True)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]  # a plug-in's tool has parameters of its own
