"""The console in a browser: its listener, its safety, and its pages over ``console.queries``."""
