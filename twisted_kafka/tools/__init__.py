"""The command ``twisted-kafka``: ``serve`` runs a broker, ``dump-log`` and ``verify`` inspect the files of one."""
