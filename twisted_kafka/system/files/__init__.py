"""Files on disk: renames, locks and syncs on each platform, and reads and writes that are completed or fail."""
