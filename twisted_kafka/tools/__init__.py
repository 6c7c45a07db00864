"""Command-line tools that work on files, without a broker: ``twisted-kafka dump-log`` and ``twisted-kafka verify``."""
