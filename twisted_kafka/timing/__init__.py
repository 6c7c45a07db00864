"""Time: clocks, the scheduler of background tasks, and the timer of delayed operations."""
