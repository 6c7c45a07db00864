"""How many simulated hours find a fault in the broker: ``python -m tests.world.mutants``."""
