"""What the dashboard's tests share: a pilot waits no longer than the app works."""

from __future__ import annotations

from tests.tui import idle

idle.install()
