"""Time: the clock that is passed around, the scheduler and the purgatory of delayed operations."""
