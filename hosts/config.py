"""What a host is told when it starts. The parent hands it over through an inherited file (``secrets``)."""

from __future__ import annotations

from pydantic import Field

from duly.protocol.authority.grant import HostClass

from .handed import Handed


class HostConfig(Handed):
    """One host. ``private_key`` signs its receipts, ``harness_keys`` are raw public keys.

    ``people_places`` are files and folders with the public keys of people, read anew for each effect, so that a person
    who is trusted today need not wait for the next start.


    ``home`` is the data directory (``$DULY_HOME``), ``packages`` the folder of package snapshots by digest, ``state``
    a folder of this host's own that stays, ``scratch`` one that may be lost, ``secrets`` the credentials of this class of host by name.
    """

    name: str
    host_class: HostClass
    socket: str
    private_key: bytes = Field(min_length=32, max_length=32)
    harness_keys: list[bytes]
    people_places: list[str] = Field(default_factory=list)
    home: str
    packages: str
    state: str
    scratch: str
    secrets: dict[str, str] = Field(default_factory=dict)
