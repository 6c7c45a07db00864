"""The controller's operations, one module for each."""
