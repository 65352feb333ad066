"""What a model host is told when it starts. The parent hands it over through an inherited file (``hosts/secrets``)."""

from __future__ import annotations

from pydantic import Field

from duly.protocol.plan.model_call import ModelRole

from ..handed import Handed


class ModelHostConfig(Handed):
    """One model host. ``people_places`` are files and folders with the public keys of people, read at each call.

    ``model``, ``base_url`` and ``api_key`` are what the supervisor's environment names for this role, empty where it
    names nothing; ``secrets`` are this role's secrets by name. ``packages`` is the folder of package snapshots by
    digest, ``ledger`` the file with what runs have spent, ``settings`` the one that ``duly model serve`` writes.
    """

    role: ModelRole
    socket: str
    people_places: list[str]
    packages: str
    ledger: str
    settings: str
    model: str = ""
    base_url: str = ""
    api_key: str = Field(default="", repr=False)
    secrets: dict[str, str] = Field(default_factory=dict, repr=False)
