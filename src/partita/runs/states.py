"""Where are clients' states? In memory within a budget, and beyond it in the run's store."""

from collections import OrderedDict
from collections.abc import Iterator, MutableMapping

from ..tensors import Tensors
from .store import Store


class States(MutableMapping[int, Tensors]):
    """Clients' tensors by number. Uncommitted states stay in memory; others are evicted, least recently used first."""

    def __init__(self, store: Store, stage: str, budget: int) -> None:
        self._store, self._stage, self._budget = store, stage, budget
        self._known = set(store.clients(stage))
        self._fresh: dict[int, Tensors] = {}
        self._cache: OrderedDict[int, Tensors] = OrderedDict()
        self._cached = 0

    def __getitem__(self, client: int) -> Tensors:
        if client in self._fresh:
            return self._fresh[client]
        if client not in self._known:
            raise KeyError(client)
        if client not in self._cache:
            found = self._load(client)
            self._remember(client, found)
            return found
        self._cache.move_to_end(client)
        return self._cache[client]

    def __setitem__(self, client: int, tensors: Tensors) -> None:
        self._forget(client)
        self._fresh[client] = tensors

    def __delitem__(self, client: int) -> None:
        raise TypeError("a client's state is replaced, never deleted")

    def __iter__(self) -> Iterator[int]:
        return iter(sorted(self._known | self._fresh.keys()))

    def __len__(self) -> int:
        return len(self._known | self._fresh.keys())

    @property
    def over_budget(self) -> bool:
        """Whether the uncommitted states exceed the budget."""
        return sum(map(_bytes, self._fresh.values())) > self._budget

    def committed(self) -> None:
        """Everything new has been committed to the store."""
        fresh, self._fresh = self._fresh, {}
        self._known |= fresh.keys()
        for client, tensors in fresh.items():
            self._remember(client, tensors)

    def _load(self, client: int) -> Tensors:
        if self._store.closed:
            # A result can be looked at after its run has ended.
            with Store.open(self._store.folder) as store:
                found = store.own(self._stage, client)
        else:
            found = self._store.own(self._stage, client)
        if found is None:
            raise KeyError(client)
        return found

    def _remember(self, client: int, tensors: Tensors) -> None:
        self._cache[client] = tensors
        self._cached += _bytes(tensors)
        while self._cached > self._budget and self._cache:
            self._forget(next(iter(self._cache)))

    def _forget(self, client: int) -> None:
        if client in self._cache:
            self._cached -= _bytes(self._cache.pop(client))


def _bytes(tensors: Tensors) -> int:
    return sum(tensor.nbytes for tensor in tensors.values())
