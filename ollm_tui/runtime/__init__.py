"""The composition root: core and agent built from settings, trust and policy files."""

from ollm_tui.runtime.configuration import Configuration, ConfigurationError, configure, with_approvals_since
from ollm_tui.runtime.core import Attendance, Core, open_core
from ollm_tui.runtime.recorded_session import SessionError, SessionWish
from ollm_tui.runtime.runtime import Runtime, open_runtime

__all__ = [
    "Attendance",
    "Configuration",
    "ConfigurationError",
    "Core",
    "Runtime",
    "SessionError",
    "SessionWish",
    "configure",
    "open_core",
    "open_runtime",
    "with_approvals_since",
]
