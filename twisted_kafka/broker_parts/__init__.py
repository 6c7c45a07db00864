"""What `broker.py` is made of: putting the parts together, the broker's identity, a reactor of its own."""
