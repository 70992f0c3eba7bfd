"""The one place that knows how the parts fit: core and agent from settings, trust and policy files."""

from ollm_tui.assembly.configuration import Configuration, ConfigurationError, configure
from ollm_tui.assembly.house import Attendance, Core, House, assemble, assemble_core

__all__ = [
    "Attendance",
    "Configuration",
    "ConfigurationError",
    "Core",
    "House",
    "assemble",
    "assemble_core",
    "configure",
]
