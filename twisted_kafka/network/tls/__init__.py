"""TLS: key and trust stores, OpenSSL contexts, the transport. Imported only if a listener or client needs it (ADR 0006)."""
