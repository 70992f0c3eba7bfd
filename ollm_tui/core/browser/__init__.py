"""The browser of the agent: the system's Chromium, driven by Playwright, behind a filtering proxy."""
