"""One search with ddgs, in a process of its own: reads a question as JSON from stdin, writes the outcome to stdout.

Run as a file, and it imports nothing of ours: the package has its own network stack, which cannot be cancelled, bounds
no answer, and tells a refusal from "nothing found" by nothing. Here it can be killed, its memory has an end, and what
each engine answered is written down.
"""

from __future__ import annotations

import functools
import importlib
import json
import re
import sys
from typing import Any
from urllib.parse import urlsplit

MEMORY_BYTES = 2 * 1024 * 1024 * 1024
MAX_REDIRECTS = 3

_CHALLENGE = re.compile(
    r"captcha|unusual traffic|anomaly[-_.]|are you (?:a )?(?:human|robot)|not a robot|challenge-platform|cf-challenge",
    re.IGNORECASE,
)


def watch(client: Any, answers: list[dict[str, str]]) -> None:  # Any: the package's HttpClient class, which we wrap
    """Write down what each engine answers: `host`, and `said`, which is empty for a page that is no refusal."""
    original = client.request

    @functools.wraps(original)
    def request(self: object, method: str, url: str, *args: object, **options: object) -> object:
        host = urlsplit(url).hostname or url
        try:
            answer = original(self, method, url, *args, **options)
        except Exception as error:
            cause = error.__cause__ or error  # the package wraps what its network stack says, and repeats the address
            reason = str(cause).rsplit(" > ", 1)[-1] or type(cause).__name__
            answers.append({"host": host, "said": reason[:100]})
            raise
        answers.append({"host": host, "said": _refusal(answer.status_code, answer.text)})
        return answer

    client.request = request


def search(query: str, count: int, seconds: float) -> dict[str, object]:
    """`results` as ddgs gives them, `answers` of the engines, and `error` where it raised one."""
    package: Any = importlib.import_module("ddgs.ddgs")  # Any here and below: optional packages without types
    answers: list[dict[str, str]] = []
    watch(importlib.import_module("ddgs.http_client").HttpClient, answers)
    try:
        results = package.DDGS(timeout=max(1, int(seconds))).text(query, max_results=count)
    except Exception as error:  # noqa: BLE001 - every engine it asks has failures of its own kind
        return {"results": [], "answers": answers, "error": f"{type(error).__name__}: {error}"[:300]}
    return {"results": results, "answers": answers, "error": ""}


def encrypted_only() -> None:
    """No engine, and nobody on the way, can send us on to an unencrypted address, of this machine or any other."""
    primp: Any = importlib.import_module("primp")
    primp.Client = functools.partial(primp.Client, https_only=True, max_redirects=MAX_REDIRECTS)


def main() -> None:
    """Run the process."""
    if sys.platform != "win32":
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    asked = json.load(sys.stdin)
    encrypted_only()
    json.dump(search(asked["query"], asked["count"], asked["seconds"]), sys.stdout)


def _refusal(status: int, text: str) -> str:
    if status != 200:
        return f"HTTP {status}"
    return "it wants to know whether a human asks" if _CHALLENGE.search(text) else ""


if __name__ == "__main__":
    main()
