"""Register the built-in tools and those of plug-ins: installed packages, and files of the user's plug-ins folder."""

from __future__ import annotations

import importlib.util
import io
import logging
import os
import re
import stat
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass, field, replace
from importlib.metadata import entry_points
from pathlib import Path
from typing import cast

from ollm_tui.core.base.app_dirs import config_dir, may_be_there
from ollm_tui.core.base.escape import visible
from ollm_tui.core.tools.base import AnyTool, Tool
from ollm_tui.core.tools.builtin import builtin_tools
from ollm_tui.core.tools.registry import ALIASES, ToolRegistry, folded_name

log = logging.getLogger(__name__)

PLUGIN_GROUP = "ollm_tui.tools"
"""The entry points under which packages offer tools."""
LOAD_SECONDS = 2.0
"""How long a plug-in may take to load."""

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")


@dataclass(frozen=True)
class _Plugin:
    name: str
    place: str
    load: Callable[[], object]


@dataclass
class PluginRegistry:
    """What a plug-in's `register` is given: it takes tools, and nothing of the built-in ones can be changed by it."""

    taken: dict[str, str]
    """Folded names, each with the name that it stands for."""
    tools: list[AnyTool] = field(default_factory=list[AnyTool])

    def register(self, tool: object) -> None:
        """Take a tool. Raises TypeError for anything else, ValueError for a name that is taken or none."""
        if not isinstance(tool, Tool):
            raise TypeError(f"it is a {type(tool).__name__}, not a Tool")
        offered = cast("AnyTool", tool)
        if not _NAME.fullmatch(offered.name):
            raise ValueError(f"{visible(offered.name[:80])!r} is not a name that a model can call")
        folded = folded_name(offered.name)
        if folded in self.taken:  # what a policy says of one would be about the other
            raise ValueError(f"its name {offered.name} already stands for {self.taken[folded]}")
        self.taken[folded] = offered.name
        self.tools.append(replace(offered, plugin=True))


def load_registry(*, browser_without_sandbox: bool = False) -> tuple[ToolRegistry, list[str]]:
    """Return a registry with all tools that work here, and one line for each plug-in that was left out."""
    registry = ToolRegistry()
    for tool in builtin_tools(browser_without_sandbox=browser_without_sandbox):
        registry.register(tool)
    errors: list[str] = []
    folder = config_dir() / "plugins"
    try:
        own = list(_in_folder(folder))
    except OSError as error:
        own = []
        errors.append(f"The plug-ins in {visible(str(folder))} are left out: {error.strerror}.")
    for plugin in (*_installed(), *own):
        try:
            for tool in _tools_of(plugin, registry):
                registry.register(tool)
        except (Exception, SystemExit) as error:  # whatever loading a plug-in raises concerns that plug-in alone
            log.debug("the plug-in %s failed", plugin.name, exc_info=True)
            reason = visible(f"{type(error).__name__}: {error}".splitlines()[0][:500])
            errors.append(f"The plug-in {visible(plugin.name)} ({visible(plugin.place)}) is left out: {reason}.")
    return registry, errors


def python_plugins() -> list[tuple[str, str]]:
    """Return name and place of each plug-in that is Python code; none is loaded. Raises OSError."""
    return [(one.name, one.place) for one in (*_installed(), *_in_folder(config_dir() / "plugins"))]


def _installed() -> Iterator[_Plugin]:
    for entry in sorted(entry_points(group=PLUGIN_GROUP), key=lambda entry: entry.name):
        yield _Plugin(entry.name, entry.value, entry.load)


def _in_folder(folder: Path) -> Iterator[_Plugin]:
    if not may_be_there(folder):
        return
    for path in sorted(folder / name for name in os.listdir(folder) if name.endswith(".py")):
        yield _Plugin(path.stem, str(path), lambda path=path: _import_file(path))


def _import_file(path: Path) -> object:
    """Return the file's `register`. Raises PermissionError where others can write the file."""
    if path.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise PermissionError(f"others can write the file (chmod go-w {path})")
    name = f"ollm_tui_plugins.{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError("it is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    if not callable(register := getattr(module, "register", None)):
        raise TypeError("it has no register(registry)")
    return register


def _tools_of(plugin: _Plugin, registry: ToolRegistry) -> list[AnyTool]:
    """Load a plug-in in a thread, which is left to itself after LOAD_SECONDS; what it prints goes to the log."""
    taken = {folded_name(name): name for name in (*ALIASES, *(tool.name for tool in registry.list()))}
    offered = PluginRegistry(taken)
    failures: list[Exception | SystemExit] = []

    def load() -> None:
        try:
            loaded = plugin.load()
            if isinstance(loaded, Tool) or not callable(loaded):
                offered.register(cast("object", loaded))
            else:
                loaded(offered)
        except (Exception, SystemExit) as error:  # noqa: BLE001  # raised again in the thread that waits
            failures.append(error)

    printed = io.StringIO()
    with redirect_stdout(printed):
        thread = threading.Thread(target=load, name=f"plug-in {plugin.name}", daemon=True)
        thread.start()
        thread.join(LOAD_SECONDS)
    if printed.getvalue():
        log.info("the plug-in %s printed: %s", plugin.name, visible(printed.getvalue()[:2000]))
    if thread.is_alive():
        raise TimeoutError(f"it did not load within {LOAD_SECONDS:g} s")
    if failures:
        raise failures[0]
    return offered.tools
