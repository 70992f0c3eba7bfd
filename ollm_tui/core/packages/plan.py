"""What an installation would do, in the words of its question, and names that look like a popular package's."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.base.errors import FetchFailed, InvalidArguments, ShellExecutionFailed, ToolFailure
from ollm_tui.core.base.escape import visible
from ollm_tui.core.fence.secrets import mask


class Manager(StrEnum):
    """Which program installs."""

    PIP = "pip"
    NPM = "npm"


@dataclass(frozen=True)
class PlannedPackage:
    """One package that would come; `hash` is what its archive must have."""

    name: str
    version: str
    hash: str
    source: str
    """Where its archive is: an address without path, user or password."""
    requested: bool = False
    replaces: str = ""
    """The version that is there now."""
    has_scripts: bool = False
    """Whether npm would run scripts of it while installing."""
    is_source: bool = False
    """Whether it comes as source, and is built here."""

    def line(self) -> str:
        """Return the package as a question shows it."""
        why = "asked for" if self.requested else "needed by another"
        why += ", only as source" if self.is_source else ""
        change = f"{self.replaces} -> " if self.replaces else ""
        return visible(f"{self.name} {change}{self.version}  {why}, {self._origin}")

    def tool_line(self) -> str:
        """Return the package as a question shows what builds another."""
        return visible(f"{self.name} {self.version}, {self._origin}")

    @property
    def _origin(self) -> str:
        kind, _, digest = self.hash.replace("=", "-", 1).partition("-")
        return f"{kind} {digest[:16]}… from {self.source}"


@dataclass(frozen=True)
class SourceFile:
    """A source package as an index offers it; name and version in the form in which indexes compare them."""

    name: str
    version: str
    url: str
    sha256: str

    @property
    def title(self) -> str:
        """The package for a person."""
        return visible(f"{self.name} {self.version}")


@dataclass(frozen=True)
class SourcePackage:
    """A source package with what it says of itself."""

    file: SourceFile
    requires: tuple[str, ...] | None
    """What it needs when it runs; None where that is known once it is built, and not before."""
    build_requires: tuple[str, ...]
    backend: str
    """What builds it, as its pyproject.toml names it."""
    extras: tuple[str, ...] = ()


@dataclass(frozen=True)
class PackageBuild:
    """A source package to build, and what builds it."""

    source: SourcePackage
    tools: tuple[PlannedPackage, ...]


@dataclass(frozen=True)
class InstallPlan:
    """Everything that would change; `files` holds manifests and lock files as they would be."""

    target: str
    packages: tuple[PlannedPackage, ...]
    removed: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    files: dict[str, bytes] = field(default_factory=dict[str, bytes])
    builds: tuple[PackageBuild, ...] = ()
    """What has to be built from source, which runs its code."""

    def text(self) -> str:
        """Return what the question shows."""
        lines = [f"into {self.target}", "", *(package.line() for package in self.packages)]
        lines += [visible(f"{name}  removed") for name in self.removed]
        lines += [] if self.packages or self.removed else ["(all of it is there already)"]
        lines += ["", f"changes {', '.join(self.files)}"] if self.files else []
        return "\n".join(lines)


class Installer(Protocol):
    """One installation with one manager, looked ahead and then held to what was shown."""

    def plan(self, signal: AbortSignal) -> InstallPlan:
        """Return what would be installed. Blocks; runs nothing of a package or the workspace. Raises ToolFailure."""
        ...

    def command(self, plan: InstallPlan, folder: Path, signal: AbortSignal) -> str:
        """Return the bash line that installs exactly the plan; `folder` takes what it needs. Blocks."""
        ...

    def further(self, plan: InstallPlan) -> str:
        """Return what of the plan runs a package's own code, and is asked about by itself; empty where nothing is."""
        ...

    def further_text(self, plan: InstallPlan) -> str:
        """Return what its question shows. Blocks; raises ToolFailure."""
        ...

    def further_command(self, plan: InstallPlan, folder: Path, signal: AbortSignal) -> str:
        """Return the bash line that runs it. Blocks."""
        ...

    def unmet(self, plan: InstallPlan) -> list[str]:
        """Return what the installed say they need, where that was not known before and is not there. Blocks."""
        ...


_PIP_REQUIREMENT = re.compile(
    r"(?P<name>[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)(?:\[[A-Za-z0-9._, -]+\])?"
    r"(?:\s*(?:[<>=!~]=|[<>])\s*[A-Za-z0-9.*+!_-]+(?:\s*,\s*(?:[<>=!~]=|[<>])\s*[A-Za-z0-9.*+!_-]+)*)?"
)
_NPM_PACKAGE = re.compile(
    r"(?P<name>(?:@[a-z0-9~-][a-z0-9._~-]*/)?[a-z0-9~-][a-z0-9._~-]*)(?:@[\^~]?[0-9A-Za-z][0-9A-Za-z.+-]*)?"
)


def package_name(manager: Manager, package: str) -> str:
    """Return the name in a request. Raises InvalidArguments for addresses, paths, options and aliases."""
    pattern = _PIP_REQUIREMENT if manager is Manager.PIP else _NPM_PACKAGE
    found = pattern.fullmatch(package.strip())
    if found is None or found["name"].startswith("-"):
        example = '"requests" or "requests>=2.31"' if manager is Manager.PIP else '"lodash" or "lodash@^4.17.0"'
        raise InvalidArguments(
            f"{visible(package)!r} is no package by name. Give names with or without a version, such as {example}; "
            "for addresses, paths and repositories use shell."
        )
    return found["name"]


def normal_name(name: str) -> str:
    """Return a name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


@lru_cache(maxsize=2)
def _popular(manager: Manager) -> frozenset[str]:
    lines = Path(__file__).with_name("popular.txt").read_text("utf-8").splitlines()
    rows = dict(line.split(":", 1) for line in lines if not line.startswith("#"))
    return frozenset(rows[manager.value].split())


def popular_like(manager: Manager, name: str) -> str | None:
    """Return the popular package that a name is one slip away from; None for a popular one."""
    plain, popular = normal_name(name), _popular(manager)
    known = {normal_name(each): each for each in popular}
    if plain in known:
        return None
    squeezed = plain.replace("-", "")
    for normal, each in known.items():
        if squeezed == normal.replace("-", "") or (len(normal) > 3 and _one_slip(plain, normal)):
            return each
    return None


def _one_slip(one: str, other: str) -> bool:
    """Return whether one letter more, less or other, or two in the wrong order, make them equal."""
    if abs(len(one) - len(other)) > 1:
        return False
    start = next((at for at, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), None)
    if start is None:
        return True
    rest, there = one[start:], other[start:]
    swapped = rest[:2] == there[1::-1] and rest[2:] == there[2:] and len(there) > 1
    return rest[1:] == there[1:] or rest[1:] == there or rest == there[1:] or swapped


def name_warnings(manager: Manager, names: Sequence[str]) -> list[str]:
    """Return the warnings about names that look like popular ones."""
    near = ((name, popular_like(manager, name)) for name in names)
    return [
        f"{visible(name)} is one slip away from the popular {like}: is it the right one?" for name, like in near if like
    ]


def origin_of(url: str) -> str:
    """Return where an address leads, without path, user and password."""
    parts = urlsplit(url)
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{parts.hostname or ''}{port}" if parts.scheme != "file" else "this machine's disk"


NOTHING_STARTS = "nothing is built while pip only looks"
"""What pip says where a look ahead would start a program."""

_NETWORK = re.compile(
    r"Failed to establish a new connection|name resolution|Name or service not known|Connection refused|ECONNREFUSED"
    r"|ENOTFOUND|EAI_AGAIN|ETIMEDOUT|ECONNRESET|NetworkUnreachable|Network is unreachable|Max retries exceeded"
    r"|ConnectTimeout|ReadTimeout",
    re.I,
)


def failure_of(manager: Manager, said: str, known: str = "") -> ToolFailure:
    """Return the error for what an installer said; `known` are versions of it that the index has."""
    text = mask(visible(" ".join(said.split())))
    line = next((line.strip() for line in said.splitlines() if _NETWORK.search(line)), None)
    if line is not None:
        return FetchFailed(
            f"{manager.value} could not reach its index; nothing was installed. Check the network and the index that "
            f"is configured: {mask(visible(line))[:300]}"
        )
    if NOTHING_STARTS in said:
        return ShellExecutionFailed(
            "A package asks for another by its address, which pip would have to build to look at it. Nothing ran and "
            "nothing was installed; pip install with shell does it, and asks."
        )
    missing = re.search(r"No matching distribution found for ([^\s(]+)|404 Not Found[^']*'([^']+)'", said)
    named = next(filter(None, missing.groups()), "") if missing else ""
    if named and known:
        return ShellExecutionFailed(
            f"No built package (wheel) of {visible(named)} fits this Python; the index has versions {visible(known)}. "
            "None comes as a source package (.tar.gz) for it either. Ask for another version."
        )
    if named:
        like = popular_like(manager, re.split(r"[<>=!~@\[;]", named.lstrip("@"))[0])
        hint = f"Did you mean {like}?" if like else "Check its name and version."
        return ShellExecutionFailed(f"The index has no {visible(named.removesuffix('@*'))}. {hint}")
    if wanted := re.search(r"No matching version found for (\S+)", said):
        return ShellExecutionFailed(f"The index has no {visible(wanted[1].rstrip('.'))}. Check its version.")
    return ShellExecutionFailed(f"{manager.value} could not plan the installation: {text[-600:]}")
