"""A package index on this machine, for pip and npm, and what lies on it."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import tarfile
import zipfile
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest


class Index:
    """A package index on this machine; `pages` by path."""

    def __init__(self, url: str, pages: dict[str, bytes]) -> None:
        self.url = url
        self.pages = pages
        self.links: dict[str, list[str]] = {}

    def add_wheel(self, name: str, version: str, requires: str = "", attributes: str = "", **files: str) -> None:
        info = f"{name}-{version}.dist-info"
        needs = f"Requires-Dist: {requires}\n" if requires else ""
        content = {
            **{f"{module}.py": text for module, text in (files or {name: ""}).items()},
            f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}",
            f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        }
        content[f"{info}/RECORD"] = "".join(f"{path},,\n" for path in [*content, f"{info}/RECORD"])
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            for path, text in content.items():
                archive.writestr(path, text)
        self.add_file(name, f"{name}-{version}-py3-none-any.whl", packed.getvalue(), attributes)

    def add_file(self, name: str, file: str, content: bytes, attributes: str = "") -> None:
        self.pages[f"/files/{file}"] = content
        digest = hashlib.sha256(content).hexdigest()
        self.links.setdefault(name, []).append(f'<a href="/files/{file}#sha256={digest}" {attributes}>{file}</a>')
        self.pages[f"/simple/{name}/"] = (
            f"<!DOCTYPE html><html><body>{''.join(self.links[name])}</body></html>".encode()
        )

    def add_npm(self, name: str, version: str, scripts: dict[str, str]) -> None:
        manifest = {"name": name, "version": version, "scripts": scripts}
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz") as archive:
            entry = tarfile.TarInfo("package/package.json")
            body = json.dumps(manifest).encode()
            entry.size = len(body)
            archive.addfile(entry, io.BytesIO(body))
        content = packed.getvalue()
        self.pages[f"/{name}/-/{name}-{version}.tgz"] = content
        integrity = f"sha512-{base64.b64encode(hashlib.sha512(content).digest()).decode()}"
        place = {"tarball": f"{self.url}/{name}/-/{name}-{version}.tgz", "integrity": integrity}
        whole = {**manifest, "dist": place, "hasInstallScript": bool(scripts)}
        self.pages[f"/{name}"] = json.dumps(
            {"name": name, "dist-tags": {"latest": version}, "versions": {version: whole}}
        ).encode()


def packed(files: dict[str, str]) -> bytes:
    """Return a .tar.gz of these files."""
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w:gz") as archive:
        for name, text in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text.encode())
            archive.addfile(entry, io.BytesIO(text.encode()))
    return whole.getvalue()


@contextmanager
def running_index() -> Generator[Index]:
    pages: dict[str, bytes] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = pages.get(self.path.replace("%2f", "/"))
            self.send_response(404 if body is None else 200)
            json_kind = "application/vnd.pypi.simple.v1+json" if "/simple/" in self.path else "application/json"
            kind = json_kind if body is not None and body.startswith(b"{") else "text/html"
            self.send_header("Content-Type", "application/octet-stream" if "/files/" in self.path else kind)
            self.send_header("Content-Length", str(len(body or b"")))
            self.end_headers()
            self.wfile.write(body or b"")

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the library's name
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield Index(f"http://127.0.0.1:{server.server_port}", pages)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def only_index(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Generator[Index]:
    """Run an index and set pip and npm to it, and to nothing else."""
    with running_index() as index:
        for name in [each for each in os.environ if each.upper().startswith(("PIP_", "NPM_CONFIG_"))]:
            monkeypatch.delenv(name)
        monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
        monkeypatch.setenv("PIP_INDEX_URL", f"{index.url}/simple")
        monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
        monkeypatch.setenv("npm_config_registry", f"{index.url}/")
        monkeypatch.setenv("npm_config_cache", str(tmp_path / "npm-cache"))
        monkeypatch.setenv("npm_config_fetch_retries", "0")
        yield index
