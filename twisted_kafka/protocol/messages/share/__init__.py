"""The messages of share groups (KIP-932), which no handler needs yet."""
