"""Building source packages for pip: a stand-in for each while it only looks, the question, and the line that builds."""

from __future__ import annotations

import shlex
import zipfile
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from ollm_tui.core.base.escape import visible
from ollm_tui.core.packages.plan import (
    InstallPlan,
    PackageBuild,
    PlannedPackage,
    SourceFile,
    SourcePackage,
    origin_of,
)

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
