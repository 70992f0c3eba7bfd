"""Finding a source package on the indexes that pip is set to (PEP 503 and 691): pip itself would build it to look."""

from __future__ import annotations

import ast
import hashlib
import json
import re
import ssl
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urldefrag, urljoin, urlsplit
from urllib.request import url2pathname

from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.base.errors import FetchFailed, ShellExecutionFailed
from ollm_tui.core.base.escape import visible
from ollm_tui.core.packages.plan import SourceFile, normal_name, origin_of
from ollm_tui.core.web.response_body import ACCEPT_ENCODING, BoundedBody, ResponseBodyError

if TYPE_CHECKING:
    import httpx

_DEFAULT_INDEX = "https://pypi.org/simple"
_MOST_PAGE_BYTES = 50_000_000
_MOST_ARCHIVE_BYTES = 300_000_000
_SECONDS = 120.0
_ACCEPT = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1"


@dataclass(frozen=True)
class _Link:
    """One file of an index."""

    filename: str
    url: str
    sha256: str
    requires_python: str
    yanked: bool


class SourceIndex:
    """The indexes of one run of pip; its settings are pip's own."""

    def __init__(self, settings: Mapping[str, str], signal: AbortSignal) -> None:
        self._certificates = settings.get("cert", "")
        self._signal = signal
        more = settings.get("extra-index-url", "").split()
        off = settings.get("no-index", "").lower() in ("1", "true", "yes", "on")
        self._indexes = [] if off else [settings.get("index-url", _DEFAULT_INDEX).strip(), *more]

    def newest(self, requirement: str, python: str) -> SourceFile | None:
        """Return the newest source package that meets a requirement. Blocks; raises ToolFailure."""
        from packaging.requirements import InvalidRequirement, Requirement
        from packaging.utils import InvalidSdistFilename, parse_sdist_filename

        try:
            wanted = Requirement(requirement)
        except InvalidRequirement:
            return None
        fitting = {
            version: link
            for link in reversed(self._links(wanted.name))
            for name, version in _parsed(link, parse_sdist_filename, InvalidSdistFilename)
            if name == normal_name(wanted.name) and _takes(link, python) and not link.yanked
        }
        version = max(wanted.specifier.filter(fitting), default=None)
        if version is None:
            return None
        link = fitting[version]
        found = SourceFile(normal_name(wanted.name), str(version), link.url, link.sha256)
        if not re.fullmatch(r"[0-9a-f]{64}", link.sha256):
            raise ShellExecutionFailed(f"{found.title} comes without a hash. Run pip install with shell, which asks.")
        return found

    def fetch(self, file: SourceFile, into: Path) -> None:
        """Write the archive of a source package into a file and compare its hash. Blocks; raises ToolFailure."""
        digest, size = hashlib.sha256(), 0
        with into.open("wb") as written, self._answer(file.url) as (_, pieces):
            for piece in pieces:
                size += len(piece)
                if size > _MOST_ARCHIVE_BYTES:
                    raise FetchFailed(
                        f"The source package of {file.title} has more than {_MOST_ARCHIVE_BYTES:,} bytes."
                    )
                digest.update(piece)
                written.write(piece)
        if digest.hexdigest() != file.sha256:
            raise FetchFailed(
                f"The source package of {file.title} from {origin_of(file.url)} has another content than its index "
                "says (its hash differs). Nothing of it ran and nothing was installed."
            )

    def _links(self, name: str) -> list[_Link]:
        return [link for index in self._indexes for link in self._page(f"{index.rstrip('/')}/{normal_name(name)}/")]

    def _page(self, url: str) -> list[_Link]:
        """Return the files that one index has of a package."""
        with self._answer(url, missing_is_empty=True) as (headers, pieces):
            body = BoundedBody(_MOST_PAGE_BYTES, headers.get("content-encoding", ""), headers.get("content-length"))
            try:
                for piece in pieces:
                    body.feed(piece)
                text = body.finish().decode("utf-8", "replace")
            except ResponseBodyError as error:
                raise FetchFailed(f"The index at {origin_of(url)} cannot be read: {error}.") from None
        try:
            links = _of_json(text) if text.lstrip().startswith("{") else _of_html(text)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise FetchFailed(f"The index at {origin_of(url)} cannot be read: {visible(str(error))[:200]}.") from None
        local = urlsplit(url).scheme == "file"
        whole = [_Link(each.filename, urljoin(url, each.url), *_rest(each)) for each in links]
        return [each for each in whole if urlsplit(each.url).scheme in (("file",) if local else ("http", "https"))]

    @contextmanager
    def _answer(
        self, url: str, *, missing_is_empty: bool = False
    ) -> Generator[tuple[Mapping[str, str], Generator[bytes]]]:
        """Give an address's headers and its content, piece by piece. Raises FetchFailed and OperationCancelled."""
        if urlsplit(url).scheme == "file":
            yield {}, self._of_disk(Path(url2pathname(urlsplit(url).path)))
            return
        import httpx

        headers = {"accept": _ACCEPT, "accept-encoding": ACCEPT_ENCODING} if missing_is_empty else {}
        try:
            asked = {"accept-encoding": "identity", **headers}
            with self._client() as client, client.stream("GET", url, headers=asked) as answer:
                if answer.status_code == 404 and missing_is_empty:
                    yield {}, self._watched(iter(()))
                    return
                answer.raise_for_status()
                yield answer.headers, self._watched(answer.iter_raw())
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise FetchFailed(
                f"pip's index could not be reached at {origin_of(url)}: {visible(type(error).__name__)}. "
                "Nothing was installed. Check the network and the index that is configured."
            ) from None

    def _watched(self, pieces: Any) -> Generator[bytes]:
        """Give the pieces until the call is cancelled or time is up."""
        end = time.monotonic() + _SECONDS
        for piece in pieces:
            self._signal.throw_if_aborted()
            if time.monotonic() > end:
                raise FetchFailed(f"pip's index sent for more than {_SECONDS:g} s. Nothing was installed.")
            yield piece

    def _of_disk(self, path: Path) -> Generator[bytes]:
        path = path / "index.html" if path.is_dir() else path
        if not path.is_file():
            return
        with path.open("rb") as content:
            yield from self._watched(iter(lambda: content.read(1_000_000), b""))

    def _client(self) -> httpx.Client:
        import httpx

        verify = ssl.create_default_context(cafile=self._certificates) if self._certificates else True
        return httpx.Client(follow_redirects=True, max_redirects=5, timeout=20.0, verify=verify)


def settings_of(said: str, command: str) -> dict[str, str]:
    """Return what `pip config list` says for one of pip's commands; the environment goes before it, that before all."""
    found: dict[str, str] = {}
    rows = [match.groups() for line in said.splitlines() if (match := re.fullmatch(r"([\w:-]+)\.([\w-]+)=(.*)", line))]
    for section in ("global", command, ":env:"):
        for where, key, value in rows:
            if where == section:
                try:
                    found[key] = str(ast.literal_eval(value))
                except (ValueError, SyntaxError):
                    continue
    return found


def _rest(link: _Link) -> tuple[str, str, bool]:
    return link.sha256, link.requires_python, link.yanked


def _parsed(link: _Link, parse: Callable[[str], tuple[str, Any]], error: type[Exception]) -> list[tuple[str, Any]]:
    try:
        return [parse(link.filename)] if link.filename.endswith(".tar.gz") else []
    except error:
        return []


def _takes(link: _Link, python: str) -> bool:
    """Return whether a file is for a version of Python, given as 3.11."""
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    try:
        # A patch release that none is before: what asks for 3.11.2 or later is not left out.
        return not link.requires_python or f"{python}.99" in SpecifierSet(link.requires_python)
    except InvalidSpecifier:
        return True


def _of_json(text: str) -> list[_Link]:
    files: list[dict[str, Any]] = json.loads(text)["files"]
    return [
        _Link(
            str(each["filename"]),
            str(each["url"]),
            str(each.get("hashes", {}).get("sha256", "")).lower(),
            str(each.get("requires-python") or ""),
            bool(each.get("yanked")),
        )
        for each in files
    ]


def _of_html(text: str) -> list[_Link]:
    reader = _Anchors()
    reader.feed(text)
    reader.close()
    return reader.links


class _Anchors(HTMLParser):
    """Collects the files of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[_Link] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag != "a" or not given.get("href"):
            return
        url, fragment = urldefrag(given["href"] or "")
        filename = unquote(urlsplit(url).path.rpartition("/")[2])
        sha256 = fragment.removeprefix("sha256=").lower() if fragment.startswith("sha256=") else ""
        self.links.append(_Link(filename, url, sha256, given.get("data-requires-python") or "", "data-yanked" in given))
