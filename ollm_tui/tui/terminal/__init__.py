"""The terminal: an emulator, and the view that draws it and encodes keys."""

LEAVE_KEY = "ctrl+right_square_bracket"
"""Gives the keyboard back to the dashboard; pressed twice it goes to the program."""

REVIEW_KEY = "f8"
"""Opens the oldest question; after the leave key it goes to the program."""
