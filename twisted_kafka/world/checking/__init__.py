"""What the brokers of a world promise, and whether they keep it: seen from their requests, answers and logs."""
