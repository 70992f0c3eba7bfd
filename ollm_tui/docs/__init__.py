"""Documentation that ships with the program; `ollm-tui help TOPIC` prints it."""
