"""The controller: who leads which partition, and the topics that there are. One event thread over the metadata store."""
