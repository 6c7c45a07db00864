"""Client metrics (KIP-714): subscriptions, and what clients push."""
