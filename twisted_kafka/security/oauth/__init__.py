"""Bearer tokens (RFC 6750) as JSON web tokens: unsecured ones for development, and signed ones with keys from a JWKS endpoint."""
