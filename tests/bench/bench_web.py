"""HTML to Markdown beside parsing the same page with lxml, and what else is commonly used for it.

Run: python tests/bench/bench_web.py [PAGE.html ...]. Without pages, those of Debian's python3-doc and sqlite3-doc,
or a made page of 750 KB where they are missing. All arms run interleaved in this process; medians of CPU time and
ratios to `lxml.html.fromstring` are printed, which makes a tree and no text. Bar: a page of 750 KB that says what its
main part is <= 4x.
"""

from __future__ import annotations

import gc
import platform
import statistics
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import lxml.html
import readability

from ollm_tui.core.web.charset import decode_text
from ollm_tui.core.web.extraction import extract_main

ROUNDS = 11
PAGES = (
    "/usr/share/doc/python3.11/html/library/os.html",
    "/usr/share/doc/python3.11/html/library/stdtypes.html",
    "/usr/share/doc/python3.11/html/tutorial/classes.html",
    "/usr/share/doc/sqlite3/lang_select.html",
    "/usr/share/doc/sqlite3/faq.html",
)


def main() -> None:
    print(
        f"Python {platform.python_version()}, lxml {version('lxml')}, readability-lxml {version('readability-lxml')}; "
        f"median of {ROUNDS}, CPU time"
    )
    given = [Path(name) for name in sys.argv[1:] or PAGES]
    found = [(path.name, path.read_bytes()) for path in given if path.exists()]
    for name, data in found or [("a made page", made_page())]:
        compare(name, data)


def compare(name: str, data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    parse, ours = interleaved(
        lambda: lxml.html.fromstring(data),
        lambda: extract_main(decode_text(data, "text/html; charset=utf-8"), "https://example.org/docs/page.html"),
    )
    # By itself: it leaves the caches so that whatever comes next looks slow.
    (readable,) = interleaved(lambda: readability.Document(text).summary())
    print(
        f"\n{name}, {len(data):,} bytes -> {len(extract_main(text, 'https://example.org/docs/page.html')):,} characters"
    )
    for what, seconds in (
        ("lxml.html.fromstring", parse),
        ("extract_main (bytes to Markdown)", ours),
        ("readability summary (HTML, no Markdown)", readable),
    ):
        print(f"  {what:42} {seconds * 1e3:8.1f} ms   {seconds / parse:6.2f}x")


def interleaved(*arms: Callable[[], object]) -> list[float]:
    times: list[list[float]] = [[] for _ in arms]
    for _ in range(ROUNDS):
        for arm, taken in zip(arms, times, strict=True):
            gc.collect()
            began = time.process_time()
            result = arm()
            taken.append(time.process_time() - began)
            del result  # freeing a tree is not part of the next arm
    return [statistics.median(taken) for taken in times]


def made_page() -> bytes:
    """As Sphinx writes them: nested lists of definitions, spans inside code, links."""
    entry = (
        '<dl class="py function"><dt class="sig" id="f{n}"><span class="pre">module.</span><span class="pre">f{n}</span>'
        '<span class="paren">(</span><em><span class="n"><span class="pre">path</span></span></em>)'
        '<a class="headerlink" href="#f{n}">¶</a></dt><dd><p>What it does, with <a href="other.html#g"><code><span '
        'class="pre">g()</span></code></a> and <em>path</em>, at some length, so that there is text.</p>'
        '<div class="highlight-python3"><pre><span class="k">def</span> <span class="nf">f{n}</span>():\n    pass\n'
        "</pre></div></dd></dl>"
    )
    body = "".join(entry.replace("{n}", str(number)) for number in range(1_250))
    return f'<!DOCTYPE html><html><body><div role="main">{body}</div></body></html>'.encode()


if __name__ == "__main__":
    main()
