"""The messages of streams groups (KIP-1071), which no handler needs yet."""
