"""One loop for every task: schedules, optimisers, checkpoints, and resuming to the bit."""
