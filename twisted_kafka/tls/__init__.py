"""Keys, certificates and OpenSSL contexts: for sockets, ZooKeeper and the tools. Imported only if needed (ADR 0006)."""
