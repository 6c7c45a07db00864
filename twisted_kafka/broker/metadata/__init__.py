"""The broker's metadata store, and what it registers there."""
