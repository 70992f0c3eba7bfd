"""Controllers: between the runtime and the screen, a file for each subject."""
