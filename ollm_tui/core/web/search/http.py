"""What providers that answer JSON over HTTP have in common: one request, and their refusals as errors."""

from __future__ import annotations

import json
from collections.abc import Mapping

from pydantic import JsonValue

from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.base.errors import FetchFailed, FetchTimeout, SearchFailed
from ollm_tui.core.base.escape import visible
from ollm_tui.core.web.client import WebAccess
from ollm_tui.core.web.messages import Method, WebRequest, WebResponse
from ollm_tui.core.web.search.base import SEARCH_SECONDS
from ollm_tui.core.web.urls import WebUrl


async def ask_json(
    web: WebAccess,
    provider: str,
    url: WebUrl,
    signal: AbortSignal,
    *,
    headers: Mapping[str, str] | None = None,
    body: JsonValue = None,
    own: WebUrl | None = None,
) -> dict[str, JsonValue]:
    """The object a provider answers with. Raises SearchFailed that names the provider and the remedy."""
    request = WebRequest(
        url=url,
        method=Method.GET if body is None else Method.POST,
        headers={"accept": "application/json", **(headers or {})},
        body=None if body is None else json.dumps(body),
        timeout=SEARCH_SECONDS,
    )
    try:
        response = await web.fetch(request, signal, own=own)
    except (FetchFailed, FetchTimeout) as failure:
        raise SearchFailed(f"{provider} gave no answer: {failure.message}", failure.details) from None
    _refuse_status(provider, url, response)
    try:
        answer: JsonValue = json.loads(response.body)
    except (ValueError, RecursionError):
        raise _unreadable(provider, url, "it is not JSON") from None
    if not isinstance(answer, dict):
        raise _unreadable(provider, url, "it is not a JSON object")
    return answer


def results_of(answer: Mapping[str, JsonValue], provider: str, url: WebUrl, *path: str) -> list[dict[str, JsonValue]]:
    """The list of results below `path`. Raises SearchFailed where there is something else."""
    value: JsonValue = dict(answer)
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    if not isinstance(value, list):
        raise _unreadable(provider, url, f"it has no list of results under {'.'.join(path)}")
    return [result for result in value if isinstance(result, dict)]


def text_under(result: Mapping[str, JsonValue], name: str) -> str:
    value = result.get(name)
    return value if isinstance(value, str) else ""


def _refuse_status(provider: str, url: WebUrl, response: WebResponse) -> None:
    if response.redirect is not None:
        raise SearchFailed(f"{provider} redirects to {response.redirect.text}. Set its address in [web] anew.")
    status = response.status
    if status < 300:
        return
    match status:
        case 429 | 503:
            wait = visible(response.headers.get("retry-after", ""))[:40]
            reason = "it gets too many requests" + (f" (try again after {wait})" if wait else "")
            remedy = "Wait, or use another provider: [web] search_provider."
        case 401:
            reason, remedy = "it does not accept the key", "Check the key in the [web] settings."
        case 402:
            reason, remedy = "its plan is used up", "Wait for the next period, or use another provider."
        case 403:
            reason = "it refuses the request (blocked, a wrong key, or its JSON form is switched off)"
            remedy = "Check the key; for SearXNG allow json under search.formats of its settings.yml."
        case _:
            reason, remedy = f"HTTP {status}: {response.reason}", "Check its address in the [web] settings."
    raise SearchFailed(
        f"{provider} did not search: {reason}. {remedy}",
        {"status": status, "url": f"{url.scheme}://{url.host_and_port}"},
    )


def _unreadable(provider: str, url: WebUrl, reason: str) -> SearchFailed:
    return SearchFailed(
        f"{provider}: the answer cannot be read: {reason}. Check that a search server answers at "
        f"{url.scheme}://{url.host_and_port}, or use another provider: [web] search_provider.",
        {"reason": reason},
    )
