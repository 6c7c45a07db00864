"""A broker under test over HTTP, for tests in other languages: JSON in, JSON out (docs/test-server.md)."""
