"""Share groups (KIP-932): their members, and the states of their partitions."""
