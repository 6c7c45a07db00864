"""Keys, certificates and OpenSSL contexts: for sockets, ZooKeeper and the tools.

Imported only if something needs TLS. OpenSSL, cryptography and what Twisted imports with them take a seventh of the time to the
first response and 12 MB of memory, a fifth of an idle broker's. The twistd plugin hides the module OpenSSL from Twisted's reactor
too (``without_tls``). An embedded broker hides nothing: the process is not its own.
"""
