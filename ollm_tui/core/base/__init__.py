"""What everything in the core may use: errors, results, time, cancelling, texts made safe."""
