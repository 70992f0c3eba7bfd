"""The tools that a model can call, and what they share."""
