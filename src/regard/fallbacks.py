"""Fallbacks: what runs slower than it could, and why. Each is logged once; `regard doctor` lists them."""

import logging

log = logging.getLogger("regard")
_reported: dict[str, str] = {}


def report(feature: str, reason: str, level: int = logging.WARNING) -> None:
    """Log, the first time, that `feature` is off for `reason`."""
    if feature not in _reported:
        _reported[feature] = reason
        log.log(level, "%s: off (%s); torch computes instead. `regard doctor` has the details", feature, reason)


def reported() -> dict[str, str]:
    """Maps features that are off to the reason."""
    return dict(_reported)
