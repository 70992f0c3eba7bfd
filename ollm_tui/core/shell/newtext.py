"""Telling a folded output while it still changes: what is new since the last time, as pieces to be appended."""

from __future__ import annotations


class NewText:
    """What there is to tell of a folded text since the last time: pieces to be appended, never taken back.

    A line that was told and changed afterwards is not told again before it is complete; lines further up never are.
    """

    MOST = 65_536
    """Characters kept between two tellings; of a flood only the end is told."""

    def __init__(self) -> None:
        self._queue: list[str] = []
        self._queued = 0
        self._dropped = 0
        self._lines_told = 0
        """Lines after the settled text that have been told in full."""
        self._told = ""
        """What has been told of the line after these."""

    def settle(self, text: str) -> None:
        """Take text that can no longer change."""
        self._queue.append(text)
        self._queued += len(text)
        if self._queued > 2 * self.MOST:
            kept = "".join(self._queue)[-self.MOST :]
            self._dropped += self._queued - len(kept)
            self._queue, self._queued = [kept], len(kept)
            self._lines_told, self._told = 0, ""

    def take(self, rest: str, *, final: bool = False) -> str:
        """The new text, `rest` being what may still change; empty when there is nothing to tell yet."""
        current = "".join(self._queue) + rest
        start = 0
        for _ in range(self._lines_told):
            start = current.find("\n", start) + 1
            if start == 0:
                start = len(current)
                break
        new = current[start:]
        if new.startswith(self._told):
            new = new[len(self._told) :]
        elif "\n" in new or final:
            new = "\n" + new
        else:
            settled_lines = sum(text.count("\n") for text in self._queue)
            self._queue, self._queued = [], 0
            self._lines_told = max(0, self._lines_told - settled_lines)
            return ""
        if self._dropped:
            new = f"[... {self._dropped} characters not shown here ...]\n{new}"
        self._queue, self._queued, self._dropped = [], 0, 0
        self._lines_told, self._told = rest.count("\n"), rest[rest.rfind("\n") + 1 :]
        return new
