"""Waiting for a condition, with a deadline and a message, instead of sleeping."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class Late(AssertionError):
    """The condition did not come true in time."""


def wait_for(
    condition: Callable[[], T],
    message: str | Callable[[], str],
    deadline: float = 10.0,
    interval: float = 0.02,
) -> T:
    """Calls `condition` until it returns something true, and returns that."""
    end = time.monotonic() + deadline
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() >= end:
            text = message() if callable(message) else message
            raise Late(f"not within {deadline:g} s: {text}")
        time.sleep(interval)
