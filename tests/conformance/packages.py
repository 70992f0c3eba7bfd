"""Fetches the suites from the package registries that carry them; nothing of them is kept in this repository."""

from __future__ import annotations

import shutil
import subprocess
import tarfile
from pathlib import Path

XTERM_PACKAGE = "xterm@2.0.1"
"""An npm release that carries the escape sequence files; today's leave the tests out."""
LIBVTERM_PACKAGE = "libvterm"
"""Debian's source package, which has libvterm's `t/*.test`."""
DEBIAN = "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian trixie main"
SECONDS = 300


class NotAvailableError(Exception):
    """A suite's package cannot be had here; says which program or package is missing."""


def xterm_fixtures(folder: Path) -> Path:
    """The folder of xterm's `.in` and `.text` files."""
    made = folder / "xterm"
    found = sorted(made.glob("**/t0001-*.in"))
    if not found:
        made.mkdir(parents=True, exist_ok=True)
        _run(["npm", "pack", "--silent", XTERM_PACKAGE], made)
        for archive in made.glob("xterm-*.tgz"):
            _unpack(archive, made)
        found = sorted(made.glob("**/t0001-*.in"))
    if not found:
        raise NotAvailableError(f"{XTERM_PACKAGE} from npm has no escape sequence files")
    return found[0].parent


def libvterm_tests(folder: Path) -> Path:
    """The folder of libvterm's `.test` files."""
    made = folder / "libvterm"
    found = sorted(made.glob("**/t/*movecursor.test"))
    if not found:
        made.mkdir(parents=True, exist_ok=True)
        _apt_source(LIBVTERM_PACKAGE, made)
        for archive in made.glob("*.orig.tar.*"):
            _unpack(archive, made)
        found = sorted(made.glob("**/t/*movecursor.test"))
    if not found:
        raise NotAvailableError(f"Debian's source package {LIBVTERM_PACKAGE} has no tests")
    return found[0].parent


def _apt_source(package: str, folder: Path) -> None:
    """Download with apt's settings of our own, so that the system's lists stay as they are and root is not needed."""
    sources = folder / "sources.list"
    sources.write_text(DEBIAN + "\n", encoding="utf-8")
    for name in ("lists/partial", "cache/archives/partial"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    settings = {
        "Dir::Etc::SourceList": sources,
        "Dir::Etc::SourceParts": "/dev/null",
        "Dir::State::Lists": folder / "lists",
        "Dir::Cache": folder / "cache",
        "APT::Sandbox::User": "",
    }
    options = [part for name, value in settings.items() for part in ("-o", f"{name}={value}")]
    _run(["apt-get", "-qq", *options, "update"], folder)
    _run(["apt-get", "-qq", *options, "source", "--download-only", package], folder)


def _run(command: list[str], folder: Path) -> None:
    if shutil.which(command[0]) is None:
        raise NotAvailableError(f"{command[0]} is not installed")
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise NotAvailableError(f"{command[0]} took longer than {SECONDS} s") from None
    if done.returncode:
        last = (done.stderr.strip() or "no reason given").splitlines()[-1]
        raise NotAvailableError(f"{' '.join(command[-2:])} failed: {last}")


def _unpack(archive: Path, folder: Path) -> None:
    with tarfile.open(archive) as contents:
        contents.extractall(folder, filter="data")
