"""Settings that change while the broker runs, and the secret ones among them."""
