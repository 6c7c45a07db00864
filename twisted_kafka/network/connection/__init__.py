"""One client connection: framing, the channel and its states, and the plain-text transport."""
