"""The terminal: an emulator, and the view that draws it and encodes keys."""

LEAVE_KEY = "ctrl+right_square_bracket"
"""The prefix: the next key is the dashboard's; pressed twice it goes to the program."""

REVIEW_KEY = "f8"
"""Opens the oldest question; after the prefix it goes to the program."""
