"""Appends, fetches and other operations on partitions, and those of them that wait."""
