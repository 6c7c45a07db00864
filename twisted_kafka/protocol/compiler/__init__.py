"""The compiler of messages: from a declaration to a class, and to the source of its readers and writers, one for each version."""
