"""A model that is in memory while somebody asks for it: opened when it is needed, released when it is not."""

import gc
import re
import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from qkv.errors import InputError

T = TypeVar("T")
SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


def seconds_of(text: str) -> float:
    """'10m' is 600: a number and s, m, h or d; a number alone has seconds. Nothing at all is 0."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd]?)", text.strip())
    if not text.strip():
        return 0.0
    if found is None:
        raise InputError(f"{text!r} is no time; write a number and s, m, h or d, for example 10m")
    return float(found[1]) * SECONDS[found[2]]


class OnDemand(Generic[T]):
    """What `opener` gives. Whoever holds it goes on with it, though it is released meanwhile."""

    def __init__(
        self, opener: Callable[[], T], seconds: float = 0.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`seconds` without a question after which it is released; 0 for never."""
        self.opener, self.seconds, self.clock = opener, seconds, clock
        self.lock = threading.Lock()
        self.found: T | None = None
        self.used = 0.0

    @property
    def is_open(self) -> bool:
        return self.found is not None

    def get(self) -> T:
        """One thread opens it, the others wait for that one."""
        with self.lock:
            if self.found is None:
                self.found = self.opener()
            self.used = self.clock()
            return self.found

    def release(self, now: bool = False) -> bool:
        """Let go of it, if nobody has asked for it long enough, or `now`; whether that was done."""
        with self.lock:
            is_idle = self.seconds > 0 and self.clock() - self.used >= self.seconds
            if self.found is None or not (is_idle or now):
                return False
            self.found = None
        gc.collect()  # a module and its hooks may know each other
        return True
