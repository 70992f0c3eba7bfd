"""`install_package`: a package that is there only as source is a second question; nothing of it runs before (003)."""

from __future__ import annotations

import asyncio
import hashlib
import json
import subprocess
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from ollm_tui.core import MessageBus, PolicyConfig, PolicyEngine, ToolExecutor
from ollm_tui.core.base.results import ToolResult
from ollm_tui.core.bus.confirmation import ConfirmationRequest, TextPreview
from ollm_tui.core.bus.notices import ConfirmationRequested, Notice
from ollm_tui.core.bus.states import Risk
from ollm_tui.core.execution.options import AutoAnswer, ExecutorOptions
from ollm_tui.core.tools.install_package import INSTALL_PACKAGE, InstallPackageData
from ollm_tui.core.tools.registry import ToolRegistry
from ollm_tui.testing.tool_harness import Answer, answer_confirmations
from tests.core.tools.file_calls import Room
from tests.core.tools.package_index import Index, only_index, packed

pytestmark = pytest.mark.skipif(find_spec("pip") is None, reason="needs pip")

BUILDS = """
import pathlib, re, zipfile

def made(folder, run_first=""):
    if run_first:
        exec(pathlib.Path(run_first).read_text())
    said = pathlib.Path("PKG-INFO").read_text()
    name, version = (re.search(f"^{each}: (.+)$", said, re.M)[1] for each in ("Name", "Version"))
    info = f"{name}-{version}.dist-info"
    wheel = f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(pathlib.Path(folder, wheel), "w") as whole:
        whole.writestr(f"{name}.py", f"version = {version!r}")
        whole.writestr(f"{info}/METADATA", said + pathlib.Path("late").read_text())
        whole.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        whole.writestr(f"{info}/RECORD", "")
    return wheel
"""
"""A build backend in a few lines; what it finds in `late` is metadata that is known once it is built."""

SETUPTOOLS = f"""
class __legacy__:
    @staticmethod
    def build_wheel(folder, settings=None, metadata=None):
        return made(folder, "setup.py")
{BUILDS}
"""
"""Stands in for setuptools, as far as running setup.py."""


@pytest.fixture
def index(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Index]:
    with only_index(monkeypatch, tmp_path) as index:
        yield index


@pytest.fixture
def room(tmp_path: Path) -> Room:
    return Room(tmp_path)


@pytest.fixture
def canary(room: Room) -> Path:
    """What the code of each package writes as soon as it runs."""
    return room.outside / "ran"


def source(
    canary: Path, name: str = "oldyak", version: str = "1.0", metadata: str = "2.2", requires: str = "", late: str = ""
) -> bytes:
    """Return a source package with a backend of its own."""
    needs = f"Requires-Dist: {requires}\n" if requires else ""
    backend = f"{BUILDS}\nopen({str(canary)!r}, 'a')\ndef build_wheel(folder, *more): return made(folder)\n"
    own = "[build-system]\nrequires = []\nbuild-backend = 'own'\nbackend-path = ['.']\n"
    files = {
        "PKG-INFO": f"Metadata-Version: {metadata}\nName: {name}\nVersion: {version}\n{needs}",
        "pyproject.toml": own,
        "own.py": backend,
        "late": late,
    }
    return packed({f"{name}-{version}/{file}": text for file, text in files.items()})


def installed(
    room: Room,
    *answers: Answer,
    packages: tuple[str, ...] = ("oldyak",),
    attended: bool = True,
    meanwhile: Callable[[int], object] = lambda _: None,
) -> tuple[ToolResult, list[ConfirmationRequest]]:
    """Return what the whole way of a call gives, and what a person was asked; `meanwhile` runs at each question."""
    registry, bus = ToolRegistry(), MessageBus()
    registry.register(INSTALL_PACKAGE)
    asked: list[ConfirmationRequest] = []

    def at_question(notice: Notice) -> None:
        if isinstance(notice, ConfirmationRequested):
            meanwhile(len(asked) + 1)

    async def whole() -> ToolResult:
        options = ExecutorOptions(auto_answer=AutoAnswer.YES)
        policy = PolicyEngine(PolicyConfig())
        async with ToolExecutor(registry, policy, bus, room.workspace, attended, options) as executor:
            bus.subscribe(at_question)
            nonlocal asked
            asked = answer_confirmations(bus, *answers) if attended else []
            return await executor.execute("install_package", {"manager": "pip", "packages": list(packages)})

    return asyncio.run(whole()), asked


def text_of(request: ConfirmationRequest) -> TextPreview:
    assert isinstance(request.details.preview, TextPreview)
    return request.details.preview


def names(result: ToolResult) -> dict[str, str]:
    assert isinstance(result.data, InstallPackageData), result.llm_content
    return {each.name: each.version for each in result.data.installed}


def there(room: Room) -> list[str]:
    return sorted(path.name for path in room.folder.glob(".venv/lib/*/site-packages/*.dist-info"))


def test_it_is_built_after_a_second_question_that_names_all_of_it(room: Room, index: Index, canary: Path) -> None:
    archive = source(canary, requires='hay>=1; python_version >= "3"')
    index.add_file("oldyak", "oldyak-0.9.tar.gz", source(canary, version="0.9"))
    index.add_file("oldyak", "oldyak-1.0.tar.gz", archive, 'data-requires-python="&gt;=3.8"')
    index.add_file("oldyak", "oldyak-2.0.tar.gz", source(canary, version="2.0"), 'data-yanked=""')
    index.add_wheel("hay", "1.2")
    ran: list[bool] = []
    result, (first, second) = installed(
        room, Answer(), Answer(), meanwhile=lambda _: ran.append(canary.exists() or bool(there(room)))
    )
    assert ran == [False, False] and canary.exists() and result.ok, result.llm_content
    assert "oldyak 1.0  asked for, only as source, sha256 " in text_of(first).text
    assert "hay 1.2  needed by another, sha256 " in text_of(first).text
    assert any("oldyak 1.0 is there only as source" in each for each in text_of(first).warnings)
    assert second.details.description == "Run the build of oldyak 1.0 from source"
    assert second.details.risk is Risk.HIGH and "the first yes did not cover the build of oldyak 1.0" in second.reason
    assert text_of(second).text.splitlines() == [
        "oldyak 1.0",
        f"  from      {index.url}/files/oldyak-1.0.tar.gz",
        f"  sha256    {hashlib.sha256(archive).hexdigest()}",
        "  built by  own",
        '  needs     hay>=1; python_version >= "3"',
    ]
    assert (
        "runs code of these packages (their setup.py or build backend) on this machine" in text_of(second).warnings[0]
    )
    assert names(result) == {"oldyak": "1.0", "hay": "1.2"} and there(room) == [
        "hay-1.2.dist-info",
        "oldyak-1.0.dist-info",
    ]
    python = room.folder / ".venv/bin/python"
    assert subprocess.check_output([python, "-c", "import oldyak; print(oldyak.version)"]) == b"1.0\n"


def test_setup_py_is_built_with_tools_that_are_pinned_and_shown(room: Room, index: Index, canary: Path) -> None:
    info = "Metadata-Version: 1.0\nName: oldyak\nVersion: 1.0\n"
    files = {"PKG-INFO": info, "setup.py": f"open({str(canary)!r}, 'w')", "late": "Requires-Dist: straw>=3\n"}
    archive = packed({f"oldyak-1.0/{name}": text for name, text in files.items()})
    index.add_file("oldyak", "oldyak-1.0.tar.gz", archive)
    index.add_wheel("setuptools", "80.0", **{"setuptools/__init__": "", "setuptools/build_meta": SETUPTOOLS})
    index.add_wheel("wheel", "0.45")
    ran: list[bool] = []
    result, (_, second) = installed(room, Answer(), Answer(), meanwhile=lambda _: ran.append(canary.exists()))
    assert ran == [False, False] and canary.exists(), result.llm_content
    shown = text_of(second).text
    assert "built by  setuptools.build_meta:__legacy__" in shown and "with      setuptools 80.0, sha256 " in shown
    assert "needs     known once it is built, and not before; none is installed with it" in shown
    assert there(room) == ["oldyak-1.0.dist-info"]
    assert result.notes == ("not installed, though what was built says it needs it: straw>=3",)


def test_a_wheel_that_needs_it_waits_for_it(room: Room, index: Index, canary: Path) -> None:
    index.add_wheel("yak", "1.0", requires="oldyak>=1")
    index.add_file("oldyak", "oldyak-1.0.tar.gz", source(canary))
    denied, asked = installed(room, Answer(), Answer(approved=False, reason="not today"), packages=("yak",))
    assert len(asked) == 2 and not denied.ok and "Nothing was installed" in denied.llm_content
    assert "the build of oldyak 1.0 from source did not run: not today" in denied.notes
    assert not canary.exists() and not (room.folder / ".venv").exists()
    done, _ = installed(room, Answer(), Answer(), packages=("yak",))
    assert names(done) == {"yak": "1.0", "oldyak": "1.0"} and len(there(room)) == 2
    again, asked = installed(room, packages=("yak", "oldyak"))
    assert not asked and "All of it is installed already" in again.llm_content


def test_a_no_and_a_yes_in_advance_install_nothing(room: Room, index: Index, canary: Path) -> None:
    index.add_file("oldyak", "oldyak-1.0.tar.gz", source(canary))
    refused, asked = installed(room, Answer(approved=False))
    assert len(asked) == 1 and not refused.ok
    advance, asked = installed(room, attended=False)
    assert not asked and not advance.ok and "needs a person's second yes" in advance.llm_content
    assert not canary.exists() and not (room.folder / ".venv").exists()


def test_another_content_after_the_question_is_refused(room: Room, index: Index, canary: Path) -> None:
    index.add_file("oldyak", "oldyak-1.0.tar.gz", source(canary))

    def swapped(question: int) -> None:
        if question == 2:
            index.links.clear()
            index.add_file("oldyak", "oldyak-1.0.tar.gz", source(canary, late="Summary: evil\n"))

    result, asked = installed(room, Answer(), Answer(), meanwhile=swapped)
    assert len(asked) == 2 and not result.ok and "HASHES" in result.llm_content.upper(), result.llm_content
    assert not canary.exists() and not there(room)


def test_a_build_that_fails_installs_nothing(room: Room, index: Index, canary: Path) -> None:
    index.add_wheel("hay", "1.2")
    broken = packed({"oldyak-1.0/pyproject.toml": "[build-system]\nrequires = []\nbuild-backend = 'gone'\n"})
    index.add_file("oldyak", "oldyak-1.0.tar.gz", broken)
    result, _ = installed(room, Answer(), Answer(), packages=("oldyak", "hay"))
    assert not result.ok and "The build or the installation failed with code" in result.llm_content
    assert not there(room)


def test_an_index_in_json_names_it_as_well(room: Room, index: Index, canary: Path) -> None:
    archive = source(canary)
    digest = hashlib.sha256(archive).hexdigest()
    index.add_file("oldyak", "oldyak-1.0.tar.gz", archive)
    file = {"filename": "oldyak-1.0.tar.gz", "url": "/files/oldyak-1.0.tar.gz", "hashes": {"sha256": digest}}
    newer = {"filename": "oldyak-2.0.tar.gz", "url": "/files/gone.tar.gz", "hashes": {}, "requires-python": ">=99"}
    page = {"meta": {"api-version": "1.0"}, "name": "oldyak", "files": [file, newer]}
    index.pages["/simple/oldyak/"] = json.dumps(page).encode()
    result, _ = installed(room, Answer(), Answer())
    assert names(result) == {"oldyak": "1.0"} and canary.exists(), result.llm_content


def test_an_archive_that_is_not_honest_is_refused_before_anyone_is_asked(room: Room, index: Index) -> None:
    index.add_file("oldyak", "oldyak-1.0.tar.gz", packed({"oldyak-1.0/setup.py": "", "../../evil": "x"}))
    result, asked = installed(room)
    assert not asked and not result.ok and "leads outside of it: ../../evil" in result.llm_content
    assert "Nothing of it ran and nothing was installed." in result.llm_content and room.all_names() == []


def test_a_package_that_asks_for_another_by_its_address_is_refused(room: Room, index: Index, canary: Path) -> None:
    index.add_file("oldyak", "oldyak-1.0.tar.gz", source(canary, requires=f"evil @ {index.url}/files/evil.tar.gz"))
    result, asked = installed(room)
    assert not asked and f"asks for evil from {index.url}" in result.llm_content and not canary.exists()


def test_one_without_a_hash_or_with_another_content_than_its_index_says_is_refused(room: Room, index: Index) -> None:
    index.pages["/simple/oldyak/"] = b'<a href="/files/oldyak-1.0.tar.gz">oldyak-1.0.tar.gz</a>'
    result, _ = installed(room)
    assert "oldyak 1.0 comes without a hash" in result.llm_content
    index.add_file("oldyak", "oldyak-1.0.tar.gz", packed({"oldyak-1.0/setup.py": ""}))
    index.pages["/files/oldyak-1.0.tar.gz"] = b"something else"
    result, _ = installed(room)
    assert "has another content than its index says" in result.llm_content


def test_what_it_is_built_with_has_to_be_there_as_wheels(room: Room, index: Index) -> None:
    index.add_file("oldyak", "oldyak-1.0.tar.gz", packed({"oldyak-1.0/setup.py": ""}))
    result, asked = installed(room)
    assert (
        not asked and "What oldyak 1.0 is built with cannot be had: The index has no setuptools" in result.llm_content
    )
