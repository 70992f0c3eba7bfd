"""Controllers: between runtime and screen, one file for each subject."""
