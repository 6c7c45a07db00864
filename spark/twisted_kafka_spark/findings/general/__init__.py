"""What no named detector knows: any series of any client, service or broker that is unlike itself for some time."""
