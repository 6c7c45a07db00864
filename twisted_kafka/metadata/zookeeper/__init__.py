"""The metadata store of a cluster: a client of a ZooKeeper ensemble, on kazoo (the extra ``zookeeper``)."""
