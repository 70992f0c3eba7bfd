"""Reading a source package: what it says of itself, and archives that are not honest (003 install_package)."""

from __future__ import annotations

import gzip
import io
import re
import tarfile
from pathlib import Path

import pytest

from ollm_tui.core.base.errors import ShellExecutionFailed
from ollm_tui.core.packages.plan import SourceFile
from ollm_tui.core.packages.source_archive import read_source
from tests.core.tools.package_index import packed

OLDYAK = SourceFile("oldyak", "1.0", "http://127.0.0.1/oldyak-1.0.tar.gz", "0" * 64)


def member(name: str, content: bytes = b"", kind: bytes = tarfile.REGTYPE, link: str = "") -> bytes:
    """Return a .tar.gz of a PKG-INFO and one more member."""
    whole = io.BytesIO()
    info = b"Metadata-Version: 2.2\nName: oldyak\nVersion: 1.0\n"
    with tarfile.open(fileobj=whole, mode="w:gz") as archive:
        for path, text, type_ in (("oldyak-1.0/PKG-INFO", info, tarfile.REGTYPE), (name, content, kind)):
            entry = tarfile.TarInfo(path)
            entry.size, entry.type, entry.linkname = len(text), type_, link
            archive.addfile(entry, io.BytesIO(text))
    return whole.getvalue()


def with_long_header() -> bytes:
    """Return an archive whose one header says that a gigabyte of name follows."""
    entry = tarfile.TarInfo("x")
    entry.type, entry.size = tarfile.GNUTYPE_LONGNAME, 1_000_000_000
    return gzip.compress(entry.tobuf() + bytes(100_000))


def bomb() -> bytes:
    """Return an archive with a member of more than a gigabyte, of which little is there."""
    entry = tarfile.TarInfo("oldyak-1.0/zeros")
    entry.size = 1_000_000_001
    return gzip.compress(entry.tobuf() + bytes(100_000))


@pytest.mark.parametrize(
    ("archive", "words"),
    [
        (member("../../evil", b"x"), "leads outside of it: ../../evil"),
        (member("oldyak-1.0/a/../../../evil", b"x"), "leads outside"),
        (member("/etc/evil", b"x"), "leads outside"),
        (member("oldyak-1.0/l", kind=tarfile.SYMTYPE, link="../../evil"), "leads outside"),
        (member("oldyak-1.0/l", kind=tarfile.LNKTYPE, link="/etc/passwd"), "leads outside"),
        (member("oldyak-1.0/pipe", kind=tarfile.FIFOTYPE), "is no file"),
        (member("other/PKG-INFO", b"x"), "more than the one folder"),
        (member("oldyak-1.0/PKG-INFO", b"x"), "is there twice"),
        (member("oldyak-1.0/pyproject.toml", kind=tarfile.SYMTYPE, link="setup.py"), "no ordinary file"),
        (member("oldyak-1.0/pyproject.toml", b"[["), "pyproject.toml that cannot be read"),
        (member("oldyak-1.0/pyproject.toml", b"build-system = 1"), "pyproject.toml that cannot be read"),
        (member("oldyak-1.0/pyproject.toml", b"[build-system]\nrequires = ['x @ http://h.example/x']"), "from http"),
        (member("oldyak-1.0/pyproject.toml", b"[build-system]\nrequires = ['-r /etc/passwd']"), "no package by name"),
        (packed({"oldyak-1.0/PKG-INFO": "Metadata-Version: 2.2\nName: other\nVersion: 1.0\n"}), "calls itself other"),
        (packed({"oldyak-1.0/PKG-INFO": "Metadata-Version: 2.2\nName: oldyak\nVersion: 2.0\n"}), "calls itself"),
        (with_long_header(), "cannot be read"),
        (bomb(), "too large"),
        (gzip.compress(b"x" * 1000), "cannot be read"),
        (member("oldyak-1.0/x", b"x" * 50_000)[:-100], "cannot be read"),
        (b"no archive", "cannot be read"),
    ],
)
def test_an_archive_that_is_not_honest_is_refused(tmp_path: Path, archive: bytes, words: str) -> None:
    path = tmp_path / "source.tar.gz"
    path.write_bytes(archive)
    with pytest.raises(ShellExecutionFailed, match=re.escape(words)):
        read_source(OLDYAK, path)
    assert [each.name for each in tmp_path.iterdir()] == ["source.tar.gz"]


@pytest.mark.parametrize(
    ("info", "requires"),
    [
        (None, None),
        ("Metadata-Version: 2.1\nRequires-Dist: hay\n", None),
        ("Metadata-Version: 2.2\nDynamic: Requires-Dist\nRequires-Dist: hay\n", None),
        ("Metadata-Version: 2.2\nDynamic: Summary\nRequires-Dist: hay\n", ("hay",)),
        ("Metadata-Version: 2.4\nRequires-Dist: hay >=1 ; extra == 'x'\n", ("hay >=1 ; extra == 'x'",)),
        ("Metadata-Version: 2.10\n", ()),
        ("Metadata-Version: none\n", None),
    ],
)
def test_what_it_requires_is_known_only_where_it_is_said_to_be_the_same_however_it_is_built(
    tmp_path: Path, info: str | None, requires: tuple[str, ...] | None
) -> None:
    files = {"oldyak-1.0/setup.py": ""}
    if info is not None:
        files["oldyak-1.0/PKG-INFO"] = f"Name: OldYak\nVersion: 1.0\n{info}"
    path = tmp_path / "source.tar.gz"
    path.write_bytes(packed(files))
    said = read_source(OLDYAK, path)
    assert said.requires == requires and said.build_requires == ("setuptools>=40.8.0", "wheel")
