"""`install_package`: what the question shows is what is installed; nothing of a package runs before (003)."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from ollm_tui.core import MessageBus, PolicyConfig, PolicyEngine, ToolExecutor
from ollm_tui.core.base.errors import FetchFailed, InvalidArguments, ShellExecutionFailed
from ollm_tui.core.base.results import ToolResult
from ollm_tui.core.bus.confirmation import ConfirmationRequest, Preview, TextPreview
from ollm_tui.core.bus.notices import ConfirmationRequested, Notice
from ollm_tui.core.execution.options import AutoAnswer, ExecutorOptions
from ollm_tui.core.packages.plan import Manager, package_name, popular_like
from ollm_tui.core.tools.install_package import INSTALL_PACKAGE, InstallPackageData
from ollm_tui.core.tools.registry import ToolRegistry
from ollm_tui.testing.tool_harness import Answer, answer_confirmations
from tests.core.tools.file_calls import Room, run
from tests.core.tools.package_index import Index, only_index, packed

needs_pip = pytest.mark.skipif(find_spec("pip") is None, reason="needs pip")
needs_npm = pytest.mark.skipif(shutil.which("npm") is None, reason="needs npm")


@pytest.fixture
def index(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Index]:
    with only_index(monkeypatch, tmp_path) as index:
        yield index


@pytest.fixture
def room(tmp_path: Path) -> Room:
    return Room(tmp_path)


def preview_of(room: Room, **arguments: object) -> TextPreview:
    async def shown() -> TextPreview:
        preview = await (await room.invocation(INSTALL_PACKAGE, **arguments).question()).preview()
        assert isinstance(preview, TextPreview)
        return preview

    return asyncio.run(shown())


def install(room: Room, **arguments: object) -> ToolResult:
    async def whole() -> ToolResult:
        try:
            return await run(room.invocation(INSTALL_PACKAGE, **arguments))
        finally:
            await room.context.defaults.aclose()

    return asyncio.run(whole())


def names(result: ToolResult) -> dict[str, str]:
    assert isinstance(result.data, InstallPackageData), result.llm_content
    return {each.name: each.version for each in result.data.installed}


@needs_pip
def test_pip_shows_names_versions_hashes_and_index_and_installs_just_that(room: Room, index: Index) -> None:
    index.add_wheel("yak", "1.0", requires="hay>=1", yak="import hay")
    index.add_wheel("hay", "1.2", hay="eaten = True")
    call = room.invocation(INSTALL_PACKAGE, manager="pip", packages=["yak"])

    async def shown_and_installed() -> tuple[Preview | None, ToolResult]:
        try:
            preview = await (await call.question()).preview()
            assert not (room.folder / ".venv").exists()
            return preview, await run(call)
        finally:
            await room.context.defaults.aclose()

    preview, result = asyncio.run(shown_and_installed())
    assert isinstance(preview, TextPreview)
    assert "yak 1.0  asked for, sha256 " in preview.text and f"… from {index.url}" in preview.text
    assert "hay 1.2  needed by another" in preview.text
    assert preview.warnings == ("there is no virtual environment here: .venv is made first",)
    assert names(result) == {"yak": "1.0", "hay": "1.2"}, result.llm_content
    python = room.folder / ".venv/bin/python"
    assert subprocess.check_output([python, "-c", "import yak; print(yak.hay.eaten)"]) == b"True\n"
    index.add_wheel("hay", "1.3")
    again = preview_of(room, manager="pip", packages=["yak", "hay"])
    assert "hay 1.2 -> 1.3  asked for" in again.text and "yak" not in again.text and not again.warnings


@needs_pip
def test_what_comes_after_the_question_with_another_content_is_not_installed(room: Room, index: Index) -> None:
    index.add_wheel("yak", "1.0", yak="good = True")
    call = room.invocation(INSTALL_PACKAGE, manager="pip", packages=["yak"])

    async def swapped() -> ToolResult:
        try:
            await call.question()
            index.links.clear()
            index.add_wheel("yak", "1.0", yak="evil = True")
            return await run(call)
        finally:
            await room.context.defaults.aclose()

    result = asyncio.run(swapped())
    assert not result.ok and "HASHES" in result.llm_content.upper()
    assert not list(room.folder.glob(".venv/lib/*/site-packages/yak*"))


@needs_pip
def test_what_is_withdrawn_is_said_and_what_is_not_there_has_a_near_name(room: Room, index: Index) -> None:
    index.add_wheel("badyak", "2.0", attributes='data-yanked="oops"')
    warnings = preview_of(room, manager="pip", packages=["badyak==2.0"]).warnings
    assert "badyak 2.0 was withdrawn (yanked) by its maker" in warnings
    with pytest.raises(ShellExecutionFailed, match=r"The index has no reqeusts\. Did you mean requests\?"):
        install(room, manager="pip", packages=["reqeusts"])


@needs_pip
@pytest.mark.parametrize("address", ["{url}/files/evil-1.0.tar.gz", "git+http://127.0.0.1:1/evil"])
def test_what_a_wheel_requires_by_its_address_runs_nothing_before_anyone_said_yes(
    room: Room, index: Index, address: str
) -> None:
    canary = room.outside / "ran"
    backend = f"open({str(canary)!r}, 'w')\n"
    project = "[build-system]\nrequires = []\nbuild-backend = 'own'\nbackend-path = ['.']\n"
    index.add_file("evil", "evil-1.0.tar.gz", packed({"evil-1.0/pyproject.toml": project, "evil-1.0/own.py": backend}))
    index.add_wheel("yak", "1.0", requires=f"evil @ {address.format(url=index.url)}")
    with pytest.raises(ShellExecutionFailed, match="by its address"):
        install(room, manager="pip", packages=["yak"])
    assert not canary.exists()


@needs_pip
def test_without_network_the_error_says_so(room: Room, index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:1/simple")
    with pytest.raises(FetchFailed, match="pip could not reach its index"):
        install(room, manager="pip", packages=["yak"])


@needs_npm
def test_npm_runs_no_script_and_keeps_to_the_lock_file_that_was_shown(room: Room, index: Index) -> None:
    index.add_npm("yak", "1.0.0", {"postinstall": f"touch {room.outside}/ran"})
    preview = preview_of(room, manager="npm", packages=["yak"], dev=True)
    assert "yak 1.0.0  asked for, sha512 " in preview.text and preview.text.endswith("package.json, package-lock.json")
    assert "yak has install scripts: a second question names them, none runs before" in preview.warnings
    assert room.all_names() == []
    result = install(room, manager="npm", packages=["yak"], dev=True)
    assert names(result) == {"yak": "1.0.0"}, result.llm_content
    assert "npm rebuild yak@1.0.0" in result.notes[0] and not (room.outside / "ran").exists()
    assert json.loads(room.read("package.json"))["devDependencies"] == {"yak": "^1.0.0"}
    assert (room.folder / "node_modules/yak/package.json").is_file()
    # What fails leaves manifest and lock file as they were.
    before = room.read("package.json"), room.read("package-lock.json")
    index.add_npm("hay", "1.0.0", {})
    index.pages["/hay/-/hay-1.0.0.tgz"] = b"something else"
    failed = install(room, manager="npm", packages=["hay"])
    assert not failed.ok and (room.read("package.json"), room.read("package-lock.json")) == before


async def installed_by(
    room: Room, *answers: Answer, attended: bool = True, yes: bool = False, packages: tuple[str, ...] = ("yak",)
) -> tuple[ToolResult, list[ConfirmationRequest]]:
    """Return what the whole way of a call gives, and what a person was asked."""
    registry, bus = ToolRegistry(), MessageBus()
    registry.register(INSTALL_PACKAGE)
    options = ExecutorOptions(auto_answer=AutoAnswer.YES if yes else AutoAnswer.NOBODY)
    async with ToolExecutor(registry, PolicyEngine(PolicyConfig()), bus, room.workspace, attended, options) as executor:
        asked = answer_confirmations(bus, *answers) if attended else []
        return await executor.execute("install_package", {"manager": "npm", "packages": list(packages)}), asked


@needs_npm
def test_install_scripts_run_only_after_a_second_question_that_names_them(room: Room, index: Index) -> None:
    canary = room.outside / "ran"
    index.add_npm("yak", "1.0.0", {"postinstall": f"touch {canary}", "test": "never"})
    seen: list[bool] = []

    async def whole() -> tuple[ToolResult, list[ConfirmationRequest]]:
        registry, bus = ToolRegistry(), MessageBus()
        registry.register(INSTALL_PACKAGE)
        bus.subscribe(
            lambda notice: seen.append(canary.exists()) if isinstance(notice, ConfirmationRequested) else None
        )
        asked = answer_confirmations(bus, Answer(), Answer())
        async with ToolExecutor(registry, PolicyEngine(PolicyConfig()), bus, room.workspace, True) as executor:
            return await executor.execute("install_package", {"manager": "npm", "packages": ["yak"]}), asked

    result, (first, second) = asyncio.run(whole())
    assert seen == [False, False] and canary.exists() and result.ok, result.llm_content
    assert "Its install scripts ran: yak@1.0.0" in result.llm_content and not result.notes
    assert isinstance(first.details.preview, TextPreview) and "postinstall" not in first.details.preview.text
    assert second.details.description == "Run the install scripts of yak@1.0.0"
    assert "the first yes did not cover the install scripts of yak@1.0.0" in second.reason
    shown = second.details.preview
    assert isinstance(shown, TextPreview) and f"node_modules/yak  postinstall: touch {canary}" in shown.text
    assert "never" not in shown.text and "npm rebuild --ignore-scripts=false" in shown.text


@needs_npm
def test_a_no_or_a_yes_in_advance_keeps_the_packages_and_runs_no_script(room: Room, index: Index) -> None:
    canary = room.outside / "ran"
    index.add_npm("yak", "1.0.0", {"install": f"touch {canary}"})
    denied, asked = asyncio.run(installed_by(room, Answer(), Answer(approved=False, reason="not on this machine")))
    assert len(asked) == 2 and denied.ok and not canary.exists() and names(denied) == {"yak": "1.0.0"}
    assert "the install scripts of yak@1.0.0 did not run: not on this machine" in denied.notes
    index.add_npm("hay", "1.0.0", {"install": f"touch {canary}"})
    advance, _ = asyncio.run(installed_by(room, attended=False, yes=True, packages=("hay",)))
    assert advance.ok and names(advance) == {"hay": "1.0.0"} and not canary.exists()
    assert any("needs a person's second yes" in note for note in advance.notes)


@needs_npm
def test_scripts_that_change_while_they_are_asked_about_are_asked_about_again(room: Room, index: Index) -> None:
    canary = room.outside / "ran"
    index.add_npm("yak", "1.0.0", {"install": "true"})
    index.add_npm("hay", "1.0.0", {"install": "exit 3"})

    async def whole() -> tuple[ToolResult, list[ConfirmationRequest]]:
        registry, bus = ToolRegistry(), MessageBus()
        registry.register(INSTALL_PACKAGE)

        def swap(notice: Notice) -> None:
            if isinstance(notice, ConfirmationRequested) and len(asked) == 1:
                room.write("node_modules/yak/package.json", json.dumps({"scripts": {"install": f"touch {canary}"}}))

        bus.subscribe(swap)
        asked = answer_confirmations(bus, Answer(), Answer(), Answer(approved=False))
        async with ToolExecutor(registry, PolicyEngine(PolicyConfig()), bus, room.workspace, True) as executor:
            return await executor.execute("install_package", {"manager": "npm", "packages": ["yak"]}), asked

    result, asked = asyncio.run(whole())
    assert len(asked) == 3 and asked[2].replaces == asked[1].id and not canary.exists() and result.ok
    assert isinstance(asked[2].details.preview, TextPreview) and str(canary) in asked[2].details.preview.text
    failed, _ = asyncio.run(installed_by(room, Answer(), Answer(), packages=("hay",)))
    assert not failed.ok and "The packages are installed, but their install scripts failed" in failed.llm_content
    assert "hay" in json.loads(room.read("package.json"))["dependencies"]


@needs_npm
@pytest.mark.parametrize(
    ("file", "content", "words"),
    [
        (".npmrc", "fund=false\nregistry=http://127.0.0.1:9/\n", "sets registry"),
        (".npmrc", "git=./evil.sh\n", "sets git"),
        ("package.json", '{"dependencies": {"x": "git+ssh://example.org/x"}}', "from an address"),
        ("package.json", '{"dependencies": {"x": "file:../x"}}', "from an address"),
        ("package.json", '{"workspaces": ["a"]}', "workspaces"),
        ("package.json", "[", "cannot be read"),
        ("yarn.lock", "", "kept by yarn"),
    ],
)
def test_npm_is_led_nowhere_else_before_anyone_said_yes(
    room: Room, index: Index, file: str, content: str, words: str
) -> None:
    room.write(file, content)
    with pytest.raises(ShellExecutionFailed, match=words):
        install(room, manager="npm", packages=["yak"])


@pytest.mark.parametrize(
    ("manager", "package"),
    [
        ("pip", "git+https://example.org/x"),
        ("pip", "./x"),
        ("pip", "--index-url=http://x"),
        ("pip", "x @ http://example.org/x.whl"),
        ("pip", "x; import os"),
        ("npm", "user/repository"),
        ("npm", "x@npm:y"),
        ("npm", "-g"),
        ("npm", "x@file:../x"),
    ],
)
def test_only_names_are_taken(room: Room, manager: str, package: str) -> None:
    with pytest.raises(InvalidArguments):
        install(room, manager=manager, packages=[package])
    with pytest.raises(InvalidArguments, match="dev"):
        install(room, manager="pip", packages=["x"], dev=True)


def test_names_and_names_like_popular_ones() -> None:
    assert package_name(Manager.PIP, "requests[socks]>=2.31,<3") == "requests"
    assert package_name(Manager.NPM, "@types/node@^20.1.0") == "@types/node"
    slips = {"reqeusts": "requests", "requets": "requests", "requestss": "requests", "python_dateutil": None}
    assert {name: popular_like(Manager.PIP, name) for name in slips} == slips
    assert popular_like(Manager.PIP, "pythondateutil") == "python-dateutil"
    assert popular_like(Manager.NPM, "lodahs") == "lodash" and popular_like(Manager.NPM, "left-pad") is None
