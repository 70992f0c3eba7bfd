"""Trust in a repository's own config file: for one content, kept where no repository can write."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ollm_tui.config import load_settings
from ollm_tui.core.base.app_dirs import config_dir
from ollm_tui.core.fence.workspace import Access
from ollm_tui.core.policy.repository_trust import MAX_BYTES, REPOSITORY_CONFIG, TrustState, TrustStore
from ollm_tui.options import Options
from ollm_tui.runtime import configure


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    (tmp_path / "ws" / ".ollm").mkdir(parents=True)
    return tmp_path / "ws"


def test_trust_holds_for_one_content_of_one_folder(workspace: Path, tmp_path: Path) -> None:
    book = TrustStore(tmp_path / "trusted.json")
    file = workspace / REPOSITORY_CONFIG
    assert book.check(workspace).trust is book.trust(workspace) is TrustState.NO_FILE
    file.write_text("a = 1\n")
    assert book.check(workspace).trust is TrustState.UNTRUSTED
    assert book.trust(workspace) is TrustState.TRUSTED
    assert TrustStore(book.path).check(workspace).trust is TrustState.TRUSTED
    file.write_text("a = 2\n")
    assert book.check(workspace).trust is TrustState.CHANGED
    file.write_text("a = 1\n")
    assert book.check(workspace).trust is TrustState.TRUSTED
    elsewhere = tmp_path / "other" / REPOSITORY_CONFIG
    elsewhere.parent.mkdir(parents=True)
    elsewhere.write_text("a = 1\n")
    assert book.check(tmp_path / "other").trust is TrustState.UNTRUSTED


def test_what_changed_behind_the_question_is_not_trusted(workspace: Path, tmp_path: Path) -> None:
    book = TrustStore(tmp_path / "trusted.json")
    file = workspace / REPOSITORY_CONFIG
    file.write_text("shown")
    shown = file.read_bytes()
    file.write_text("swapped")
    assert book.trust(workspace, shown) is TrustState.CHANGED
    assert book.check(workspace).trust is TrustState.UNTRUSTED
    file.write_bytes(shown)
    assert book.trust(workspace, shown) is TrustState.TRUSTED


@pytest.mark.parametrize("content", ["[]", "{", "\udcff"])
def test_a_record_that_cannot_be_read_trusts_nothing_and_is_left_alone(
    workspace: Path, tmp_path: Path, content: str
) -> None:
    book = TrustStore(tmp_path / "trusted.json")
    (workspace / REPOSITORY_CONFIG).write_text("a = 1\n")
    raw = content.encode("utf-8", "surrogateescape")
    book.path.write_bytes(raw)
    for act in (book.check, book.trust):
        with pytest.raises(ValueError, match="Move it away"):
            act(workspace)
    assert book.path.read_bytes() == raw


def test_a_record_that_anybody_may_write_trusts_nothing(workspace: Path, tmp_path: Path) -> None:
    book = TrustStore(tmp_path / "trusted.json")
    (workspace / REPOSITORY_CONFIG).write_text("a = 1\n")
    book.trust(workspace)
    book.path.chmod(0o666)
    with pytest.raises(ValueError, match="chmod"):
        book.check(workspace)


def test_what_counts_is_what_was_hashed_even_if_the_file_says_something_else_by_then(workspace: Path) -> None:
    book = TrustStore.of_user()
    file = workspace / REPOSITORY_CONFIG
    file.write_text('model = "hashed"\n')
    book.trust(workspace)
    own = book.check(workspace)
    file.write_text('model = "swapped"\n')
    loaded = load_settings(Options(workspace=workspace), own, {})
    assert loaded.settings.model == "hashed"
    assert loaded.repository_file is not None and "swapped" not in loaded.repository_file.text


def test_what_a_repository_may_put_in_the_files_place_neither_holds_the_start_nor_fills_the_memory(
    workspace: Path, tmp_path: Path
) -> None:
    book = TrustStore(tmp_path / "trusted.json")
    file = workspace / REPOSITORY_CONFIG
    os.mkfifo(file)
    assert book.check(workspace).trust is book.trust(workspace) is TrustState.NO_FILE
    file.unlink()
    file.symlink_to("/dev/zero")
    assert book.check(workspace).trust is book.trust(workspace) is TrustState.NO_FILE
    file.unlink()
    file.mkdir()
    assert book.check(workspace).trust is book.trust(workspace) is TrustState.NO_FILE
    file.rmdir()
    file.write_bytes(b"#" * MAX_BYTES)
    assert book.check(workspace).trust is TrustState.UNTRUSTED
    file.write_bytes(b"#" * (MAX_BYTES + 1))
    assert book.check(workspace).trust is book.trust(workspace) is TrustState.NO_FILE


def test_a_trusted_repository_protects_more_files_and_never_fewer(workspace: Path) -> None:
    own = config_dir() / "config.toml"
    own.parent.mkdir(parents=True, exist_ok=True)
    own.write_text('[tools]\nprotected = ["*.private"]\n')
    (workspace / REPOSITORY_CONFIG).write_text(
        '[tools]\nprotected = ["!*.private", "*.draft"]\n[keys]\n"confirm.approve" = "n"\n'
        "[terminal]\nclipboard = true\n"
    )
    TrustStore.of_user().trust(workspace)
    configuration = configure(Options(workspace=workspace))
    fence = configuration.workspace
    guarded = [
        name for name in ("a.private", "a.draft", "a.txt") if fence.sensitivity(fence.resolve(name), Access.READ)
    ]
    assert guarded == ["a.private", "a.draft"]
    assert configuration.settings.keys == {}
    assert not configuration.settings.terminal.clipboard
    assert "may not set keys" in (faults := "".join(map(str, configuration.errors)))
    assert "may not set terminal" in faults
