"""One broker with TLS as a Twisted application file: twistd -n -y tap/tls.tac

Plain text on this machine, TLS with client certificates for others. tls/broker.pem contains the broker's private key, its
certificate and its issuers' certificates; tls/clients-ca.pem the authorities that sign clients' certificates.
"""

from pathlib import Path

from twisted.application.service import Application
from twisted.internet import reactor

from twisted_kafka.tap import make_application_service

data = Path("kafka-data").absolute()
tls = Path("tls").absolute()

properties = {
    "listeners": "PLAINTEXT://127.0.0.1:9092,SSL://:9093",
    "log.dirs": str(data / "log"),
    "access.log.dir": str(data / "access"),
    "ssl.keystore.type": "PEM",
    "ssl.keystore.location": str(tls / "broker.pem"),
    "ssl.truststore.type": "PEM",
    "ssl.truststore.location": str(tls / "clients-ca.pem"),
    "ssl.client.auth": "required",
    # CN=alice,OU=Engineering,O=Example becomes User:alice
    "ssl.principal.mapping.rules": "RULE:^CN=([^,]+).*$/$1/,DEFAULT",
}

application = Application("kafka")
make_application_service(properties, reactor).setServiceParent(application)
