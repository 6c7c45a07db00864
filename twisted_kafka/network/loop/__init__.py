"""Network threads: the processor, its reactor, and the CPU it runs on."""
