"""The step that is under way: what it has gathered, for those who add to it and for its end."""

from collections.abc import Callable
from typing import Any, final

from causalcast.core.ids import GroupId
from causalcast.core.message import Publication
from causalcast.runtime.host.held_steps import Action
from causalcast.runtime.storage.journal_frames import Place


@final
class StepState:
    """What a step will do when its entry is durable, and what stands in that entry."""

    def __init__(self, is_kept: bool) -> None:
        self.is_kept = is_kept  # steps have entries in a journal, and wait for them
        self.at_us = 0  # wall clock, for the trace
        self.actions: list[Action] = []
        self.deliveries: list[Publication] = []
        self.left: list[GroupId] = []  # groups that were removed
        self.owed: list[int] = []  # for each of these: the readers it is for
        self.place: Place | None = None  # of the entry whose effects happen now

    def later(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Do this when the step's entry is durable, in order with its other effects."""
        if self.is_kept:
            self.actions.append((function, arguments))
        else:
            function(*arguments)
