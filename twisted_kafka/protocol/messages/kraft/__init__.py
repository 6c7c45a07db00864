"""The messages of KRaft controllers, and the records of their log and of tiered storage, which no handler needs."""
