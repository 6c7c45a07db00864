"""The group coordinator: classic groups, consumer groups and committed offsets."""
