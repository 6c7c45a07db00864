"""The broker's metadata store, and its registration there."""
