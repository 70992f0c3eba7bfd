"""Where the links of a page lead: absolute addresses that are safe to show, each worked out once."""

from __future__ import annotations

import re
from urllib.parse import urljoin

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_SHOWN_SCHEMES = frozenset({"http:", "https:", "mailto:", "ftp:", "tel:"})
_PLAIN = re.compile(r"[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*(?:#[^\s)]*)?")
"""An address in the same folder: joining it takes no thought, and pages have hundreds."""

ROOM = 4_000_000
"""Characters of addresses in one page; a long base would make a hundred megabytes of a page's short links."""

_CONTROLS = re.compile(r"[\x00-\x20\x7f]+")


class Links:
    """The addresses of one page, by how it writes them."""

    def __init__(self, base_url: str) -> None:
        self._base = base_url
        self._folder = urljoin(base_url, ".")
        self._known: dict[str, str] = {}
        self._room = ROOM

    def resolved(self, href: str) -> str:
        """The absolute web or mail address; empty for scripts, data, what is no address, and once ROOM is used up."""
        if self._room < 0:
            return ""
        known = self._known.get(href)
        if known is None:
            known = self._known[href] = self._resolve(href.strip())
        self._room -= len(known)
        return known

    def _resolve(self, href: str) -> str:
        if not href:
            return ""
        try:
            url = self._folder + href if _PLAIN.fullmatch(href) else urljoin(self._base, href)
        except ValueError:
            return ""
        scheme = _SCHEME.match(url)
        if scheme and scheme[0].lower() not in _SHOWN_SCHEMES:
            return ""
        return _CONTROLS.sub("", "".join(url.split())).replace(")", "%29")
