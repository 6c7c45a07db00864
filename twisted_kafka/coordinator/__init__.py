"""Coordinators: consumer groups, committed offsets and producer ids, on one runtime over the internal topics."""
