"""Reading command lines; knows no rules."""
