"""Clients' requests and a broker's answers, in a file that people can read and a program can replay."""
