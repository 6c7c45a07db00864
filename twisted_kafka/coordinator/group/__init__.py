"""The group coordinator: the classic protocol of consumer groups, and committed offsets."""
