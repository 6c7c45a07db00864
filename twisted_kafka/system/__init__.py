"""What everything else stands on: the interpreter, memory, files, threads, and bounds for what clients send."""
