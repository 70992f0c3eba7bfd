"""Bundles: folders with a `plugin.toml` that bring servers, hooks, commands, skills, themes and stricter rules.

Nothing of a bundle is imported. One counts while it is as it was when the person added it (contract 11).
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import stat
import tempfile
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from glob import glob
from pathlib import Path
from typing import cast

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from ollm_tui.agent.hooks.entries import Hook, HookEvent, HookSettings, read_hooks
from ollm_tui.core.base.app_dirs import config_dir, may_be_there
from ollm_tui.core.base.escape import visible
from ollm_tui.core.base.results import JsonObject
from ollm_tui.core.policy.policy_file import LoadedPolicy, PolicyFileError, load_policy
from ollm_tui.core.policy.repository_trust import TrustState, TrustStore
from ollm_tui.core.policy.rules import Decision

MANIFEST = "plugin.toml"
ROOT_VARIABLES = ("OLLM_PLUGIN_ROOT", "CLAUDE_PLUGIN_ROOT")
"""What a bundle's hooks and servers call the folder it lies in."""
MOST_FILES, MOST_BYTES = 500, 10_000_000
"""Of one bundle: what a person may be expected to look at, and what a start may read."""

_LEFT_OUT = frozenset({".git", "__pycache__", "node_modules", ".venv"})
_NAME = r"[a-z0-9](?:[a-z0-9-]{0,22}[a-z0-9])?"


class BundleError(Exception):
    """A folder that is no bundle, or one that cannot be used; the message says why."""


class _Manifest(BaseModel):
    """The tables of a `plugin.toml`; those of `mcp`, `hooks` and `policy` are as in config.toml."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    name: str = Field(pattern=f"^{_NAME}$")
    description: str = Field("", max_length=500)
    version: str = Field("", max_length=50)
    mcp: dict[str, JsonValue] = {}
    hooks: list[JsonValue] = []
    policy: dict[str, JsonValue] = {}


@dataclass(frozen=True)
class Bundle:
    """A bundle as it was read."""

    folder: Path
    manifest: _Manifest
    text: str
    """Of its manifest."""
    listing: bytes
    """Name, content and rights of each file, by which a change is known."""

    @property
    def name(self) -> str:
        """What the person calls it, and what its commands and skills begin with."""
        return self.manifest.name

    @property
    def programs(self) -> list[str]:
        """The files that can be run."""
        lines = (line.split(maxsplit=2) for line in self.listing.decode().splitlines())
        return [json.loads(name) for _, run, name in lines if run == "x"]

    @property
    def path(self) -> str:
        """The manifest's path."""
        return str(self.folder / MANIFEST)

    def hooks(self) -> HookSettings:
        """Return its hooks, which know where it lies."""
        read = read_hooks({"hooks": self.manifest.hooks}, self.text, self.path)
        return replace(read, hooks=tuple(replace(hook, root=str(self.folder)) for hook in read.hooks))

    def servers(self) -> JsonObject:
        """Return the tables of its MCP servers, with the folder's path in its place."""
        tables = self.manifest.mcp.get("servers", {})
        return cast("JsonObject", _placed(tables, str(self.folder))) if isinstance(tables, dict) else {}

    def rules(self) -> LoadedPolicy:
        """Return its rules, which only tighten. Raises PolicyFileError."""
        loaded = load_policy(self.manifest.policy, self.text, self.path, f"plug-in {self.name}")
        if beyond := [key for key in self.manifest.policy if key != "rules"]:
            raise PolicyFileError(self.path, f"policy.{visible(beyond[0])}: a plug-in brings rules alone")
        for number, rule in enumerate(loaded.document.rules, 1):
            if rule.action is Decision.ALLOW:
                raise PolicyFileError(self.path, "a plug-in's rules deny or ask, they never allow", rule=number)
        return loaded


@dataclass(frozen=True)
class Bundles:
    """Those that count, and what a person should know about the others."""

    counting: tuple[Bundle, ...] = ()
    findings: tuple[str, ...] = ()
    guards: tuple[Hook, ...] = ()
    """Stand for what changed bundles guarded: each call asks until the person has looked."""

    @property
    def folders(self) -> dict[str, Path]:
        """Return where each one that counts lies, by its name."""
        return {bundle.name: bundle.folder for bundle in self.counting}

    @property
    def hooks(self) -> HookSettings:
        """Return the hooks of all."""
        every = [bundle.hooks() for bundle in self.counting]
        hooks = (hook for each in every for hook in each.hooks)
        return HookSettings((*hooks, *self.guards), tuple(words for each in every for words in each.findings))


def bundles_folder() -> Path:
    """Return where added bundles lie."""
    return config_dir() / "plugins"


def added_bundles(store: TrustStore) -> Bundles:
    """Return the bundles that the person has added. Blocking. Raises ValueError for a bad record."""
    folder = bundles_folder()
    if not may_be_there(folder):
        return Bundles()
    counting: list[Bundle] = []
    findings: list[str] = []
    guards: list[Hook] = []
    for path in sorted(Path(one).parent for one in glob(str(folder / "*" / MANIFEST))):
        try:
            bundle = read_bundle(path)
        except BundleError as error:
            findings.append(f"The plug-in {visible(path.name)} is left out: {error}")
            guards.append(_guard(path, "it cannot be read"))
            continue
        state = store.state_of(path, bundle.listing)
        if state is TrustState.TRUSTED:
            counting.append(bundle)
            continue
        changed = state is TrustState.CHANGED
        why = "it has changed since it was added" if changed else "nobody has added it"
        remedy = f"`ollm-tui plugin add {path}` shows it and asks, `ollm-tui plugin remove {path.name}` ends it."
        findings.append(f"The plug-in {bundle.name} does not count: {why}. {remedy}")
        if changed and (bundle.manifest.hooks or bundle.manifest.policy):
            guards.append(_guard(path, why))
    return Bundles(tuple(counting), tuple(findings), tuple(guards))


def read_bundle(folder: Path) -> Bundle:
    """Return the bundle in a folder. Blocking. Raises BundleError."""
    try:
        text = (folder / MANIFEST).read_text("utf-8")
        manifest = _Manifest.model_validate(tomllib.loads(text))
        return Bundle(folder, manifest, text, _listing(folder))
    except FileNotFoundError:
        raise BundleError(f"{visible(str(folder))} has no {MANIFEST}.") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BundleError(f"{MANIFEST}: {visible(str(error))}.") from None
    except ValidationError as error:
        first = error.errors()[0]
        raise BundleError(f"{MANIFEST}: {'.'.join(map(str, first['loc']))}: {first['msg']}.") from None


def install(bundle: Bundle, store: TrustStore) -> Path:
    """Copy a bundle to where it counts, whole or not at all, and return that place.

    Raises BundleError, OSError, and ValueError for a bad record.
    """
    target = bundles_folder() / bundle.name
    if bundle.folder.resolve() != target.resolve():
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.TemporaryDirectory(prefix=".new-", dir=target.parent) as temporary:
            copy = Path(temporary) / bundle.name
            shutil.copytree(bundle.folder, copy, ignore=lambda _, names: _LEFT_OUT.intersection(names))
            if read_bundle(copy).listing != bundle.listing:
                raise BundleError("it changed while it was copied. Try again.")
            if target.exists():
                os.replace(target, Path(temporary) / "before")
            os.replace(copy, target)
    store.trust_content(target, bundle.listing)
    return target


def remove(name: str) -> bool:
    """Remove an added bundle; False where there is none of this name. Raises OSError."""
    target = bundles_folder() / name
    if not re.fullmatch(_NAME, name) or not target.is_dir():
        return False
    with tempfile.TemporaryDirectory(prefix=".old-", dir=target.parent) as temporary:
        os.replace(target, Path(temporary) / name)
    return True


def _guard(folder: Path, why: str) -> Hook:
    fault = f"the plug-in {folder.name} may have guarded this, and {why}: ollm-tui plugin list says more"
    return Hook(HookEvent.PRE_TOOL_USE, folder.name, on_error="ask", source=str(folder / MANIFEST), fault=fault)


def _listing(folder: Path) -> bytes:
    """Return a line for each file: its digest, whether it can be run, its name. Raises BundleError, OSError."""
    lines: list[str] = []
    size = 0
    for path in _files(folder):
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode):
            raise BundleError(f"{visible(str(path.relative_to(folder)))} is no plain file, such as a link.")
        size += status.st_size
        if size > MOST_BYTES or len(lines) == MOST_FILES:
            raise BundleError(f"it has more than {MOST_FILES} files or {MOST_BYTES:,} bytes.")
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        name = json.dumps(str(path.relative_to(folder)))
        lines.append(f"{digest} {'x' if status.st_mode & stat.S_IXUSR else '-'} {name}")
    return "\n".join(sorted(lines)).encode()


def _files(folder: Path) -> Iterator[Path]:
    for here, folders, names in os.walk(folder):
        linked = [name for name in folders if os.path.islink(os.path.join(here, name))]
        folders[:] = [name for name in folders if name not in _LEFT_OUT and name not in linked]
        yield from (Path(here, name) for name in (*names, *linked))


def _placed(value: JsonValue, folder: str) -> JsonValue:
    """Return a table with the folder in the place of its variables."""
    match value:
        case str():
            for name in ROOT_VARIABLES:
                value = value.replace(f"${{{name}}}", folder)
            return value
        case list():
            return [_placed(one, folder) for one in value]
        case dict():
            return {key: _placed(one, folder) for key, one in value.items()}
        case _:
            return value
