"""The one place that knows how the parts fit: core and agent from settings, trust and policy files."""

from ollm_tui.runtime.configuration import (
    Configuration,
    ConfigurationError,
    configure,
    with_approvals_since,
)
from ollm_tui.runtime.runtime import Attendance, Core, Runtime, assemble, assemble_core

__all__ = [
    "Attendance",
    "Configuration",
    "ConfigurationError",
    "Core",
    "Runtime",
    "assemble",
    "assemble_core",
    "configure",
    "with_approvals_since",
]
