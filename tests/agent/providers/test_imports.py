"""Importing the providers costs no HTTP library and no screen."""

from __future__ import annotations

import subprocess
import sys

MODULES = (
    *(f"agent.providers.{name}" for name in ("provider", "openai", "ollama", "scripted", "offline")),
    "runtime.model_provider",
)


def test_importing_every_provider_loads_neither_httpx_nor_anything_that_draws():
    program = "import sys\n" + "".join(f"import ollm_tui.{name}\n" for name in MODULES)
    program += "print([name for name in ('httpx', 'textual', 'rich', 'pyte') if name in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
