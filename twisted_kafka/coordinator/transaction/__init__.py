"""Producers' identities; the transaction coordinator joins them here."""
