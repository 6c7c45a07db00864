"""Kerberos: names and the rules that shorten them, logins with keytabs."""
