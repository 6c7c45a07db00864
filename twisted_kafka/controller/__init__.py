"""The controller: elects partition leaders, creates and deletes topics. One event thread over the metadata store."""
