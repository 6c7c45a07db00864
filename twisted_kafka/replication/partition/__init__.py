"""A partition and its replicas on this broker."""
