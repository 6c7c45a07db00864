"""Log directories: their locks, their checkpoints, their failures."""
