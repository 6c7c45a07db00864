"""The base of all other packages: the interpreter, memory, files, threads, and bounds for data of clients."""
