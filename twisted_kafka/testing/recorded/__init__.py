"""The record of the requests that a broker under test answered, and selections of it."""
