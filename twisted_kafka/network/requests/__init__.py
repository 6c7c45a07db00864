"""Requests and their responses between network threads and request handlers, and the metrics of them."""
