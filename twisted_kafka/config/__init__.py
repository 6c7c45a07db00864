"""Configuration: every key declared once, properties files, the broker's and the topics' effective values."""
