"""Three brokers for development as a Twisted application file: twistd -n -y tap/cluster.tac

As `twisted-kafka cluster 3`: processes with directories of their own, on a ZooKeeper that is started with them.
"""

from pathlib import Path

from twisted.application.service import Application
from twisted.internet import reactor

from twisted_kafka.tools.cluster.options import make_application_service

properties = {
    "num.partitions": "3",
    # Of every broker. Those for development: 3 replicas, 2 of them in sync.
}

application = Application("kafka-cluster")
make_application_service(properties, reactor, brokers=3, directory=Path("kafka-cluster").absolute()).setServiceParent(application)
