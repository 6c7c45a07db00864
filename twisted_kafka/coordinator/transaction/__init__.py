"""Producer ids and the verification of transactions."""
