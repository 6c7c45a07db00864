"""Typed answers for pages, tools and agents. Each is bounded in records, bytes and time, and says why it stopped."""
