"""The conversation: model in, tool calls out."""
