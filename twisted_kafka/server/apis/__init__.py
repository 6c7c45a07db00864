"""The APIs, a class for each family."""
