"""The pages: a module for each section of the console. Their handlers are listed in ``web/routes.py``."""
