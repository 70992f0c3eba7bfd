"""Importing the providers costs no HTTP library and no screen."""

from __future__ import annotations

import subprocess
import sys

MODULES = ("provider", "openai", "ollama", "scripted", "offline", "probe")


def test_importing_every_provider_loads_neither_httpx_nor_anything_that_draws():
    program = "import sys\n" + "".join(f"import ollm_tui.agent.providers.{name}\n" for name in MODULES)
    program += "print([name for name in ('httpx', 'textual', 'rich', 'pyte') if name in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
