"""Widgets that draw styled text: transcript, lists, bars, prompt."""
