"""SCRAM (RFC 5802): formulas, messages, credentials."""
