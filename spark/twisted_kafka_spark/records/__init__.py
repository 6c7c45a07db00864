"""The access log as columns: formats of lines, files and folders."""
