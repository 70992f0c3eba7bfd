"""Read command lines; knows no rules."""
