"""What is held in memory? Personal parts that were asked for, within a budget; the least recently used goes first."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Cache(Generic[Key, Value]):
    """Values that are loaded when they are first asked for, within a budget of bytes."""

    def __init__(self, load: Callable[[Key], Value], size: Callable[[Value], int], budget: int) -> None:
        self._load, self._size, self._budget = load, size, budget
        self._held: OrderedDict[Key, Value] = OrderedDict()
        self.bytes = 0
        self.loaded = 0
        """How often something was loaded, since the start."""

    def __len__(self) -> int:
        return len(self._held)

    def __contains__(self, key: Key) -> bool:
        return key in self._held

    def __getitem__(self, key: Key) -> Value:
        if key in self._held:
            self._held.move_to_end(key)
            return self._held[key]
        value = self._load(key)
        self.loaded += 1
        self._held[key] = value
        self.bytes += self._size(value)
        while self.bytes > self._budget and self._held:
            self._drop(next(iter(self._held)))
        return value

    def _drop(self, key: Key) -> None:
        self.bytes -= self._size(self._held.pop(key))
