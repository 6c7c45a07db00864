"""The transport, handshakes and channel builder of TLS listeners. Imported only if a listener needs them (twisted_kafka.tls)."""
