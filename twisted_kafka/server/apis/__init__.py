"""The API handlers, one class for each family of APIs."""
