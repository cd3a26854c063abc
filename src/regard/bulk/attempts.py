"""How often each part was begun. It lives in a process of its own, a small one, where no part can hurt it."""

from collections import Counter


class Attempts:
    def __init__(self) -> None:
        self.counts: Counter[int] = Counter()

    def begin(self, part: int) -> int:
        """Which attempt at the part this is."""
        self.counts[part] += 1
        return self.counts[part]

    def again(self) -> int:
        """How many beginnings were not the first."""
        return sum(self.counts.values()) - len(self.counts)
