"""The APIs of share groups that concern partitions and their state (KIP-932)."""
