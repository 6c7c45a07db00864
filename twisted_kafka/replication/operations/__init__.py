"""Appends, fetches and other operations on partitions, with their delayed forms."""
