"""The parts that all shards of the group coordinator share: configs, metrics, assignors, end offsets."""
