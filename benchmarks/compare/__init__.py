"""What `before_after.py` and `count_instructions.py` share: two versions of the sources, and work for both."""
