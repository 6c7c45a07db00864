"""A ZooKeeper with a port for TLS."""

from pathlib import Path

from tests.support.certificates import PASSWORD, Authority

CA, OTHER_CA = Authority(), Authority("CN=Other CA")


def tls_server_settings(directory: Path, port: int) -> dict[str, object]:
    """Return the settings of a ZooKeeper that has a certificate for localhost, and a further port for TLS."""
    return {
        "secureClientPort": port,
        "secureClientPortAddress": "127.0.0.1",
        "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
        "ssl.keyStore.location": CA.issue("CN=zookeeper", ["localhost"]).write_pkcs12(directory / "server.p12"),
        "ssl.keyStore.password": PASSWORD,
        "ssl.trustStore.location": CA.write_trust_pkcs12(directory / "trust.p12"),
        "ssl.trustStore.password": PASSWORD,
    }
