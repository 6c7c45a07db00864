"""Followers: fetchers, each of which copies partitions from one leader. Loaded with the first partition that has one."""
