"""How a replica fares, and what it may answer therefore."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

import structlog

from trie_service.errors import NotReadyError, StoreUnavailableError

log = structlog.get_logger()


class ServingState(Enum):
    """How a replica fares."""

    LOADING = "loading"
    SERVING = "serving"
    DEGRADED = "degraded"


class Serving:
    """The state of one replica."""

    def __init__(self, store_description: str) -> None:
        self._store_description = store_description
        self._state = ServingState.LOADING
        self._full: set[str] = set()  # places of the store without room
        self.on_state: Callable[[ServingState], None] = lambda state: None

    @property
    def state(self) -> ServingState:
        """How this replica fares."""
        return self._state

    @state.setter
    def state(self, state: ServingState) -> None:
        if state is not self._state:
            self._state = state
            self.on_state(state)

    def note_room(self, place: str, *, is_full: bool) -> None:
        """Say once that a place of the store has no room, or has room again."""
        if is_full and place not in self._full:
            log.warning("store is full: drafts go on, learning does not", store=place)
            self._full.add(place)
        if not is_full and place in self._full:
            log.info("store has room again", store=place)
            self._full.remove(place)

    def require_loaded(self) -> None:
        """Raise NotReadyError while memory is being rebuilt."""
        if self._state is ServingState.LOADING:
            raise NotReadyError("the replica is still loading: try again, or ask another one")

    def require_store(self) -> None:
        """Raise NotReadyError, or StoreUnavailableError while the store is out of reach."""
        self.require_loaded()
        if self._state is ServingState.DEGRADED:
            raise StoreUnavailableError(f"store {self._store_description} is out of reach: try again later")
