"""Configuration: the declarations of all keys, properties files, and the effective values of the broker and its topics."""
