"""What only this broker knows of itself: requests, connections, threads, rates. It notes nothing while nobody looks."""
