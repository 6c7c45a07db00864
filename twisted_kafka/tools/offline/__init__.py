"""Commands for the files of a stopped broker."""
