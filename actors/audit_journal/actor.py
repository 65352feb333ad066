"""The AuditJournal: orders and chains events, signs checkpoints; holds the log's key and its LMDB environment."""

from __future__ import annotations

from duly.storage.journal import Journal
from duly.storage.journal_queue import JournalQueue
from duly.storage.keys import KeyRing

from ..base import ServiceActor
from ..runtime.settings import LOG_KEY, ORIGIN
from ..service import Service
from .service import journal_service


class AuditJournal(ServiceActor):
    role = "AuditJournal"

    def make(self) -> Service:
        place = self.settings.place
        journal = Journal.open(place.journal, KeyRing(place.keys).private(LOG_KEY), ORIGIN)
        return journal_service(JournalQueue(journal))
