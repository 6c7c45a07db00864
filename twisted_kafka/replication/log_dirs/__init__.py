"""Replicas that move to another log directory of this broker."""
