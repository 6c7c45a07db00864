"""What the controller is asked to do: one module per operation."""
