"""Who uses a console: passwords, sessions, and the tokens of forms."""
