"""Children of our own: nothing of the workspace runs in them, and they see no secrets."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from pathlib import Path

import pytest

from ollm_tui.core.base.abort import AbortController
from ollm_tui.core.web.child_process import ChildRunError, UnreadableError, pdf_text, run_python

SIGNAL = AbortController().signal


def page_of_pdf(words: str) -> bytes:
    """The smallest PDF that says something."""
    text = f"BT /F1 24 Tf 72 720 Td ({words}) Tj ET"
    bodies = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R "
        "/Resources << /Font << /F1 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >> >> >>",
        f"<< /Length {len(text)} >>\nstream\n{text}\nendstream",
    ]
    data, places = "%PDF-1.4\n", list[int]()
    for number, body in enumerate(bodies, 1):
        places.append(len(data))
        data += f"{number} 0 obj\n{body}\nendobj\n"
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    end = f"trailer << /Size 5 /Root 1 0 R >>\nstartxref\n{len(data)}\n%%EOF"
    return f"{data}xref\n0 5\n0000000000 65535 f \n{table}{end}".encode("latin-1")


async def test_the_text_of_a_pdf_is_read() -> None:
    pytest.importorskip("pypdf", reason="pypdf is not installed")
    assert await pdf_text(page_of_pdf("Seventeen herons"), SIGNAL) == "Seventeen herons"


async def test_a_damaged_pdf_and_an_encrypted_one_say_so() -> None:
    pytest.importorskip("pypdf", reason="pypdf is not installed")
    with pytest.raises(UnreadableError, match="damaged or encrypted"):
        await pdf_text(b"%PDF-1.7 nonsense", SIGNAL)


async def test_nothing_of_the_workspace_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A repository can hold a module of any name: reading a page from there must not run it."""
    mark = tmp_path / "it ran"
    for name in ("json", "resource", "pypdf", "io", "ddgs", "primp"):
        (tmp_path / f"{name}.py").write_text(f"open({str(mark)!r}, 'w')\n")
    monkeypatch.chdir(tmp_path)
    where = await run_python(
        ["-c", "import json, resource, sys, os; print(json.dumps([sys.path, os.getcwd()]))"], b"", SIGNAL
    )
    path, folder = json.loads(where)
    assert folder == "/"
    assert not {"", str(tmp_path)} & set(path)
    with suppress(UnreadableError):  # where pypdf is not installed
        await pdf_text(page_of_pdf("x"), SIGNAL)
    assert not mark.exists()


async def test_secrets_do_not_reach_a_child(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", "ghp_abcdefghijklmnopqrstuvwx0123456789")
    monkeypatch.setenv("OLLM_WEB__BRAVE_KEY", "sesame")
    monkeypatch.setenv("HTTPS_PROXY", "http://me:pw@proxy.example:1")
    say = ["-c", "import os, json; print(json.dumps(dict(os.environ)))"]
    seen = json.loads(await run_python(say, b"", SIGNAL))
    assert "PATH" in seen
    assert not {"GITHUB_TOKEN", "OLLM_WEB__BRAVE_KEY", "HTTPS_PROXY"} & set(seen)
    assert json.loads(await run_python(say, b"", SIGNAL, passed=["HTTPS_PROXY", "MISSING"]))["HTTPS_PROXY"]


async def test_a_failure_is_told_by_its_last_line() -> None:
    with pytest.raises(ChildRunError, match=r"^ValueError: too many$"):
        await run_python(["-c", "raise ValueError('too many')"], b"", SIGNAL)
    with pytest.raises(ChildRunError, match="ended with 3"):
        await run_python(["-c", "import sys; sys.exit(3)"], b"", SIGNAL)


async def test_a_child_that_reads_nothing_and_one_that_writes_much_are_no_trouble() -> None:
    assert await run_python(["-c", "print('x' * 3_000_000)"], b"y" * 3_000_000, SIGNAL) == b"x" * 3_000_000 + b"\n"


async def test_a_child_that_never_ends_is_killed_by_a_time_limit() -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5):
            await run_python(["-c", "import time; time.sleep(600)"], b"", SIGNAL)
