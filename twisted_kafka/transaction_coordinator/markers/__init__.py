"""Writing the markers of transactions that have ended: here, and on other brokers."""
