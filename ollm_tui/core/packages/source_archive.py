"""Source packages: what one says of itself, read without running its code, its stand-in, and how it is built."""

from __future__ import annotations

import gzip
import os
import shlex
import tarfile
import tomllib
import zipfile
import zlib
from collections.abc import Sequence
from email import message_from_bytes
from email.message import Message
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

from ollm_tui.core.base.errors import ShellExecutionFailed
from ollm_tui.core.base.escape import visible
from ollm_tui.core.packages.plan import (
    InstallPlan,
    PackageBuild,
    PlannedPackage,
    SourceFile,
    SourcePackage,
    normal_name,
    origin_of,
)

_MOST_UNPACKED = 1_000_000_000
_MOST_MEMBERS = 100_000
_MOST_AT_ONCE = 8_000_000
"""The most that is read in one go: the size of a header is the archive's own word."""
_MOST_TEXT = 1_000_000
_LEGACY_BACKEND = "setuptools.build_meta:__legacy__"
_LEGACY_REQUIRES = ("setuptools>=40.8.0", "wheel")
"""What builds a package without a word about it (PEP 517)."""
_REMEDY = "Nothing of it ran and nothing was installed."


def read_source(file: SourceFile, path: Path) -> SourcePackage:
    """Return what the archive of a source package says. Blocks; raises ShellExecutionFailed for one that is not honest.

    Args:
        file: What the index says of it.
        path: Where its archive lies; its hash has been compared.
    """
    try:
        with path.open("rb") as packed:
            texts = _texts(file, packed)
    except (tarfile.TarError, EOFError, zlib.error, OSError, ValueError) as error:
        raise _refusal(file, f"cannot be read as a .tar.gz: {visible(str(error))}") from None
    backend, build_requires = _build_system(file, texts.get("pyproject.toml"))
    said = message_from_bytes(texts["PKG-INFO"]) if "PKG-INFO" in texts else None
    if said is None:
        return SourcePackage(file, None, build_requires, backend)
    names, versions = _fields(said, "Name"), _fields(said, "Version")
    if [*map(normal_name, names), *map(_normal_version, versions)] != [file.name, file.version]:
        raise _refusal(file, f"calls itself {visible(' '.join([*names, *versions]))[:100]}")
    requires = _checked(file, _fields(said, "Requires-Dist")) if _is_static(said) else None
    return SourcePackage(file, requires, build_requires, backend, tuple(_fields(said, "Provides-Extra")))


class _BoundedGzip(gzip.GzipFile):
    """Unpacks no more than the bounds, whatever sizes the archive names."""

    def read(self, size: int | None = -1) -> bytes:
        if size is None or not 0 <= size <= _MOST_AT_ONCE:
            raise tarfile.ReadError("a header in it is too long")
        return super().read(size)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        if offset > _MOST_UNPACKED:
            raise tarfile.ReadError(f"unpacked it has more than {_MOST_UNPACKED:,} bytes")
        return super().seek(offset, whence)


def _texts(file: SourceFile, packed: IO[bytes]) -> dict[str, bytes]:
    """Return PKG-INFO and pyproject.toml, as far as they are there. Raises TarError and ShellExecutionFailed."""
    found: dict[str, bytes] = {}
    top = ""
    with _BoundedGzip(fileobj=packed, mode="rb") as unpacked, tarfile.open(fileobj=unpacked, mode="r:") as archive:
        for count, member in enumerate(archive):
            if count >= _MOST_MEMBERS or member.offset_data + member.size > _MOST_UNPACKED:
                raise _refusal(file, f"is too large: more than {_MOST_UNPACKED:,} bytes or {_MOST_MEMBERS:,} files")
            _refuse_outside(file, member)
            folder, _, name = member.name.removeprefix("./").partition("/")
            top = top or folder
            if folder != top:
                raise _refusal(file, "holds more than the one folder that it should")
            if name not in ("PKG-INFO", "pyproject.toml"):
                continue
            stream = archive.extractfile(member) if member.isreg() else None
            if stream is None or name in found or member.size > _MOST_TEXT:
                raise _refusal(file, f"has a {name} that is no ordinary file, is there twice, or is too long")
            found[name] = stream.read(_MOST_TEXT)
    return found


def _refuse_outside(file: SourceFile, member: tarfile.TarInfo) -> None:
    """Raise ShellExecutionFailed for what would land, or lead, outside the folder that it is unpacked into."""
    here = Path(member.name).parent
    led = [Path(member.name)]
    if member.issym():
        led.append(here / member.linkname)
    elif member.islnk():
        led.append(Path(member.linkname))
    for path in led:
        if path.is_absolute() or os.path.normpath(path).startswith(".."):
            raise _refusal(file, f"has a member that leads outside of it: {visible(member.name)[:200]}")
    if not (member.isreg() or member.isdir() or member.issym() or member.islnk()):
        raise _refusal(file, f"has a member that is no file: {visible(member.name)[:200]}")


def _build_system(file: SourceFile, content: bytes | None) -> tuple[str, tuple[str, ...]]:
    """Return what builds the package, and what that needs."""
    try:
        whole: dict[str, Any] = tomllib.loads((content or b"").decode("utf-8"))
        table: dict[str, Any] = whole.get("build-system", {})
        requires: list[str] = table.get("requires", list(_LEGACY_REQUIRES))
        backend = str(table.get("build-backend", _LEGACY_BACKEND))
        if "build-backend" not in table:
            requires = [*requires, *_LEGACY_REQUIRES]
        return backend, _checked(file, requires)
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise _refusal(file, f"has a pyproject.toml that cannot be read: {visible(str(error))[:200]}") from None


def _normal_version(version: str) -> str:
    from packaging.version import InvalidVersion, Version

    try:
        return str(Version(version))
    except InvalidVersion:
        return version


def _is_static(said: Message) -> bool:
    """Return whether what it requires is the same however it is built (metadata 2.2 and later)."""
    version = (_fields(said, "Metadata-Version") or ["0"])[0].split(".")
    numbers = [int(part) for part in version if part.isdigit()]
    return numbers >= [2, 2] and "requires-dist" not in [each.lower() for each in _fields(said, "Dynamic")]


def _fields(said: Message, name: str) -> list[str]:
    """Return the values of a field, each in one line."""
    return [" ".join(str(value).split()) for value in said.get_all(name, [])]


def _checked(file: SourceFile, requirements: list[str]) -> tuple[str, ...]:
    """Return requirements as they are. Raises ShellExecutionFailed for one that is none, or leads to an address."""
    from packaging.requirements import InvalidRequirement, Requirement

    for each in requirements:
        try:
            address = Requirement(each).url
        except InvalidRequirement:
            raise _refusal(file, f"asks for {visible(each)[:100]!r}, which is no package by name") from None
        if address:
            raise _refusal(file, f"asks for {visible(each.split('@')[0].strip())[:100]} from {origin_of(address)}")
    return tuple(dict.fromkeys(" ".join(each.split()) for each in requirements))


def _refusal(file: SourceFile, why: str) -> ShellExecutionFailed:
    return ShellExecutionFailed(f"The source package of {file.title} {why}. {_REMEDY}")


_EXACTLY = "--no-deps --require-hashes --no-input --disable-pip-version-check"


def stand_in_name(file: SourceFile) -> str:
    """Return the file name of the wheel that stands in for a source package."""
    return f"{file.name.replace('-', '_')}-{file.version}-py3-none-any.whl"


def write_stand_in(source: SourcePackage, folder: Path) -> None:
    """Write an empty wheel that says of itself what the source package says: pip's resolver then takes it for one."""
    file = source.file
    info = f"{file.name.replace('-', '_')}-{file.version}.dist-info"
    fields = ["Metadata-Version: 2.1", f"Name: {file.name}", f"Version: {file.version}"]
    fields += [f"Provides-Extra: {extra}" for extra in source.extras]
    fields += [f"Requires-Dist: {each}" for each in source.requires or ()]
    with zipfile.ZipFile(folder / stand_in_name(file), "w") as wheel:
        wheel.writestr(f"{info}/METADATA", "\n".join([*fields, ""]))
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")


def lacks_wheel(source: SourcePackage, tools: Sequence[PlannedPackage]) -> bool:
    """Return whether setuptools would ask for `wheel` while it builds; from 70.1 on it has its own."""
    from packaging.version import Version

    versions = {each.name: each.version for each in tools}
    by_setuptools = source.backend.startswith("setuptools.") and "setuptools" in versions
    return by_setuptools and Version(versions["setuptools"]) < Version("70.1") and "wheel" not in versions


def builds_text(plan: InstallPlan) -> str:
    """Return what the question about building shows."""
    return "\n\n".join(map(_build_text, plan.builds))


def requirement_lines(packages: Sequence[PlannedPackage]) -> str:
    """Return the requirements file that holds pip to packages."""
    return "".join(f"{each.name}=={each.version} --hash={each.hash.replace('=', ':', 1)}\n" for each in packages)


def build_steps(plan: InstallPlan, python: str, venv: Path, folder: Path) -> tuple[list[str], str]:
    """Return the bash commands that build the plan's source packages, and the one that installs what they made.

    Each is built in an environment of its own with the tools that were shown; without pip's isolation, which would
    fetch whatever the build asks for.
    """
    steps: list[str] = []
    pip = f"{shlex.quote(python)} -I -m pip"
    made = shlex.quote(str(folder / "made"))
    for number, build in enumerate(plan.builds):
        own = folder / f"build{number}"
        tools, source = own.with_suffix(".tools.txt"), own.with_suffix(".source.txt")
        tools.write_text(requirement_lines(build.tools), "utf-8")
        file = build.source.file
        source.write_text(f"{file.name}=={file.version} --hash=sha256:{file.sha256}\n", "utf-8")
        inside = f"--python {shlex.quote(str(own))}/bin/python"
        steps.append(f"{shlex.quote(str(venv))}/bin/python -I -m venv --without-pip {shlex.quote(str(own))}")
        if build.tools:
            steps.append(f"{pip} {inside} install {_EXACTLY} --only-binary=:all: -r {shlex.quote(str(tools))}")
        building = "--no-build-isolation --use-pep517 --no-cache-dir --no-binary=:all:"
        steps.append(f"{pip} {inside} wheel {_EXACTLY} {building} -w {made} -r {shlex.quote(str(source))}")
    install = "install --no-deps --no-index --no-input --disable-pip-version-check"
    return steps, f"{pip} --python {shlex.quote(str(venv))}/bin/python {install} {made}/*.whl"


def _build_text(build: PackageBuild) -> str:
    source, file = build.source, build.source.file
    if source.requires is None:
        needs = "known once it is built, and not before; none is installed with it"
    else:
        needs = ", ".join(source.requires) or "nothing"
    lines = [
        f"{file.name} {file.version}",
        f"  from      {origin_of(file.url)}{urlsplit(file.url).path}",
        f"  sha256    {file.sha256}",
        f"  built by  {source.backend}",
        *(f"  with      {tool.tool_line()}" for tool in build.tools),
        f"  needs     {needs}",
    ]
    return "\n".join(map(visible, lines))
