"""HTML to Markdown beside parsing the same page with lxml, and what else is commonly used for it.

Run: python tests/bench/bench_web.py [PAGE.html ...]. Without pages, those of Debian's python3-doc and sqlite3-doc,
or a made page of 750 KB where they are missing. All arms run interleaved, each in a child process of its own: in one
process what one of them frees decides how fast the next can allocate. Medians of CPU time and ratios to
`lxml.html.fromstring` are printed, which makes a tree and no text. Bar: a page of 750 KB that says what its main part
is <= 4x.
"""

from __future__ import annotations

import gc
import platform
import statistics
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from importlib.metadata import version
from pathlib import Path

import lxml.html
import readability

from ollm_tui.core.web.extraction import extract_main
from ollm_tui.core.web.response_body import decode_text

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


def parse(data: bytes) -> object:
    return lxml.html.fromstring(data)


def extract(data: bytes) -> object:
    return extract_main(decode_text(data, "text/html; charset=utf-8"), "https://example.org/docs/page.html")


def summarise(data: bytes) -> object:
    return readability.Document(data.decode("utf-8", "replace")).summary()


ARMS = (
    ("lxml.html.fromstring", parse),
    ("extract_main (bytes to Markdown)", extract),
    ("readability summary (HTML, no Markdown)", summarise),
)


def compare(name: str, data: bytes) -> None:
    print(f"\n{name}, {len(data):,} bytes -> {len(str(extract(data))):,} characters")
    times = interleaved([arm for _, arm in ARMS], data)
    for (what, _), seconds in zip(ARMS, times, strict=True):
        print(f"  {what:42} {seconds * 1e3:8.1f} ms   {seconds / times[0]:6.2f}x")


def interleaved(arms: list[Callable[[bytes], object]], data: bytes) -> list[float]:
    times: list[list[float]] = [[] for _ in arms]
    children = [ProcessPoolExecutor(max_workers=1) for _ in arms]
    try:
        for _ in range(ROUNDS + 1):
            for child, arm, taken in zip(children, arms, times, strict=True):
                taken.append(child.submit(cpu_seconds, arm, data).result())
    finally:
        for child in children:
            child.shutdown()
    return [statistics.median(taken[1:]) for taken in times]  # the first of each is for imports


def cpu_seconds(arm: Callable[[bytes], object], data: bytes) -> float:
    gc.collect()
    began = time.process_time()
    result = arm(data)
    taken = time.process_time() - began
    del result  # freeing a tree is not part of what is measured
    return taken


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
