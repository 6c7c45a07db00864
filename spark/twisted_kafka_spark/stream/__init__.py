"""Following a log while it is written: where it is read to, what comes out each minute."""
