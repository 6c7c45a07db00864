"""SASL: mechanisms, JAAS settings, callback handlers, and the authentication of a connection."""
