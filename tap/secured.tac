"""One broker with TLS, SCRAM, ACLs and quotas as a Twisted application file: twistd -n -y tap/secured.tac

The settings are those of etc/secured.properties. docs/operations-security.md says how to make the certificates and the first users.
"""

from pathlib import Path

from twisted.application.service import Application
from twisted.internet import reactor

from twisted_kafka.tap import load_properties, make_application_service

data = Path("kafka-data").absolute()

properties = {
    **load_properties("etc/secured.properties"),
    "log.dirs": str(data / "log"),
    "access.log.dir": str(data / "access"),
}

application = Application("kafka")
make_application_service(properties, reactor).setServiceParent(application)
