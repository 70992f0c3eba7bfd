"""Chromium for tests: skipped with the reason where it is not there."""

from __future__ import annotations

import pytest

from ollm_tui.core.browser.chromium import why_no_browser

ABSENT = why_no_browser(without_sandbox=True)
needs_chromium = pytest.mark.skipif(ABSENT is not None, reason=ABSENT or "")
