"""Configuration for commands: sound, or nothing is done."""

from __future__ import annotations

from ollm_tui.cli.exits import UsageError
from ollm_tui.options import Options
from ollm_tui.runtime import Configuration, ConfigurationError, configure


def sound_configuration(options: Options) -> Configuration:
    """Raises UsageError naming every fault (exit 2)."""
    try:
        configuration = configure(options)
        configuration.require_valid()
    except ConfigurationError as error:
        raise UsageError(str(error)) from None
    return configuration
