"""TLS listeners: stores of keys and certificates, contexts, the transport. Imported when a listener needs it (ADR 0006)."""
