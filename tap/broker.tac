"""One broker as a Twisted application file: twistd -n -y tap/broker.tac

The settings have Kafka's names. Change them here, or load a file with twisted_kafka.tap.load_properties.
"""

from pathlib import Path

from twisted.application.service import Application
from twisted.internet import reactor

from twisted_kafka.tap import make_application_service

data = Path("kafka-data").absolute()

properties = {
    "listeners": "PLAINTEXT://:9092",
    "log.dirs": str(data / "log"),
    "access.log.dir": str(data / "access"),
}

application = Application("kafka")
make_application_service(properties, reactor).setServiceParent(application)
