"""The state of groups and offsets that records keep: classic and consumer groups, members, target assignments, offsets."""
