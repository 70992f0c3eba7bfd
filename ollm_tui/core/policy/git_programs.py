"""Programs that a repository's own configuration has git run while it only looks: a status, a log or a diff.

A clone never brings such settings along, an unpacked archive may. git itself trusts them wherever the folder belongs to
the person, and no option turns all of them off.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

MAX_BYTES = 1_000_000
MAX_MODULES = 200
"""Sub-modules whose configuration is looked at; git goes into each of them for a status."""

_SECTION = re.compile(r'\[\s*([-.\w]+)(?:\s+"((?:[^"\\]|\\.)*)")?\s*\]', re.ASCII)
_SETTING = re.compile(r"([A-Za-z][-A-Za-z0-9]*)\s*(?:=\s*(.*))?\Z", re.DOTALL)
_BUILT_IN = frozenset({"", "true", "false", "yes", "no", "on", "off", "1", "0"})
_RUN_WHILE_LOOKING = re.compile(
    r"diff\.external|diff\..*\.(?:command|textconv)|filter\..*\.(?:clean|process)|include(?:if\..*)?\.path|core\.worktree",
    re.DOTALL,
)
_RUN_WHILE_FETCHING = re.compile(
    r"core\.(?:sshcommand|gitproxy)|remote\..*\.(?:uploadpack|vcs)|protocol\..*", re.DOTALL
)
_FETCHES_WHILE_LOOKING = re.compile(r"extensions\.partialclone|remote\..*\.promisor", re.DOTALL)


def configured_program(repository: Path) -> str | None:
    """The setting by which git would run a program in this repository, in words; None where there is none.

    `repository` is the folder that holds `.git`. Reads git's own files there, and blocks for a moment.
    """
    try:
        folder = _git_folder(repository)
        for file in (*_configurations(folder), *_of_modules(folder)):
            found = _suspicious(_settings(_content(file)), folder, repository)
            if found is not None:
                return f"git would follow {found} of {os.path.relpath(file, repository)}"
        return None
    except (OSError, ValueError) as error:
        return f"git's own files in it can not be read ({error})"


def _git_folder(repository: Path) -> Path:
    """Where the configuration lies: of a work tree beside others, that of them all."""
    folder = repository / ".git"
    if folder.is_file():
        pointer = _content(folder).strip()
        if not pointer.startswith("gitdir:"):
            raise ValueError("a .git file that names no folder")
        folder = repository / pointer.removeprefix("gitdir:").strip()
        common = folder / "commondir"
        if common.is_file():
            return folder / _content(common).strip()
    return folder


def _configurations(folder: Path) -> list[Path]:
    return [file for file in (folder / "config", folder / "config.worktree") if os.path.lexists(file)]


def _of_modules(folder: Path) -> Iterator[Path]:
    """The configuration of sub-modules, however deep their names are."""
    found = 0
    for place, folders, files in os.walk(folder / "modules"):
        if "config" in files:
            found += 1
            if found > MAX_MODULES:
                raise ValueError("too many sub-modules")
            yield Path(place, "config")
            folders[:] = [name for name in folders if name == "modules"]


def _content(file: Path) -> str:
    with open(os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as opened:
        content = opened.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise ValueError("too large")
    return content.decode("utf-8", "replace")


def _settings(text: str) -> dict[str, str]:
    """Keys in lower case with their last values. Raises ValueError at a line that git would refuse."""
    found: dict[str, str] = {}
    section = ""
    for line in text.removeprefix("\ufeff").replace("\\\r\n", "").replace("\\\n", "").splitlines():
        rest = line.strip()
        while (header := _SECTION.match(rest)) is not None:
            name, sub = header[1], header[2]
            section = f"{name}.{sub}".lower() if sub is not None else name.lower()
            rest = rest[header.end() :].strip()
        if not rest or rest[0] in "#;":
            continue
        setting = _SETTING.match(rest)
        if setting is None or not section:
            raise ValueError("a line of its configuration is none")
        value = re.sub(r"\s+[#;].*\Z", "", setting[2] or "").strip().strip('"')
        found[f"{section}.{setting[1].lower()}"] = value
    return found


def _suspicious(settings: dict[str, str], folder: Path, repository: Path) -> str | None:
    fetches = any(_FETCHES_WHILE_LOOKING.fullmatch(key) for key in settings)
    for key, value in settings.items():
        large_files = key.startswith("filter.lfs.") and value.startswith("git-lfs ")  # what `git lfs install` writes
        monitor = key == "core.fsmonitor" and value.lower() not in _BUILT_IN
        signatures = key == "log.showsignature" or (key.startswith("pretty.") and "%G" in value)
        network = fetches and _RUN_WHILE_FETCHING.fullmatch(key) is not None
        if monitor or signatures or network or (_RUN_WHILE_LOOKING.fullmatch(key) and not large_files):
            return key
    hooks = repository / settings["core.hookspath"] if "core.hookspath" in settings else folder / "hooks"
    return "the hook post-index-change" if os.access(hooks / "post-index-change", os.X_OK) else None
