"""Following a log while it is written: the source with its offsets, and the results of each minute."""
