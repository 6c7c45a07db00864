"""The classic group protocol: join, sync, heartbeat, leave, with assignments that a member computes."""
