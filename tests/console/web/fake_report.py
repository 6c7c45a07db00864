"""Stands for the report's program: writes a line and a page, or fails."""

import sys
from pathlib import Path

if __name__ == "__main__":
    print("3 of 4 pieces, 75%", flush=True)
    if sys.argv[sys.argv.index("--since") + 1] == "12h":
        sys.exit("no lines in this period")
    Path(sys.argv[sys.argv.index("--out") + 1]).write_text("<!doctype html><title>the report</title>")
