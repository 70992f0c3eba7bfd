"""The message bus: confirmations, their types, and notices."""
