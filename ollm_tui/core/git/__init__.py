"""What git says and how it is asked: its formats, its configuration."""
