"""When a request to a model server is sent again, and what the person reads meanwhile."""

from __future__ import annotations

from dataclasses import dataclass

from ollm_tui.agent.providers.provider import ProviderError, ProviderErrorKind


@dataclass(frozen=True)
class RetryPolicy:
    """How often to retry before anything of the answer was seen; never afterwards."""

    attempts: int = 3
    first_delay: float = 0.5
    """Seconds; doubles with each attempt unless the server says how long."""
    longest_wait: float = 60.0
    """A server that asks for more is not waited for."""
    loading: float = 300.0
    """How long to wait for a server that is loading its model, in seconds."""

    def delay(self, error: ProviderError, attempt: int, waited: float) -> float | None:
        """Return the seconds until the next attempt; None where there is none."""
        if not error.retryable:
            return None
        if error.kind is ProviderErrorKind.LOADING:
            return min(self.first_delay * 2, 2.0) if waited < self.loading else None
        delay = error.retry_after if error.retry_after is not None else self.first_delay * 2**attempt
        return delay if attempt < self.attempts and delay <= self.longest_wait else None

    def notice(self, address: str, error: ProviderError, delay: float, attempt: int) -> str:
        """Return the notice for the person before the next attempt."""
        if error.kind is ProviderErrorKind.LOADING:
            return f"{address} is loading the model; waiting for it, {self.loading:g} s at most."
        reason = f"HTTP {error.status}" if error.status else "the connection broke"
        return f"{address}: {reason}; trying again in {delay:g} s ({attempt + 1} of {self.attempts})."
