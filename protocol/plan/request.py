"""What a person asks: a text plus input parts, and what the planner could bind of it."""

from __future__ import annotations

import re
import unicodedata
from typing import Any, Literal

from pydantic import Field

from ..wire import canon
from ..wire.errors import RequestError
from ..wire.ids import Digest
from ..wire.limits import REQUEST_PARTS_MAX, REQUEST_TEXT_BYTES_MAX
from ..wire.model import Model

_WHITE = re.compile(r"\s+")


class InputPart(Model):
    """One more part of a request beside its text: a named value."""

    name: str
    value: Any


class Request(Model):
    """A request as written. ``parts`` does not count the text."""

    text: str
    parts: list[InputPart] = Field(default_factory=list)

    @property
    def part_count(self) -> int:
        """The number of input parts; the text is one."""
        return 1 + len(self.parts)

    def normalised(self) -> str:
        """Lowercase, every run of white space one space, trimmed, nothing cut off: the request in a cache key."""
        return _WHITE.sub(" ", self.text.lower()).strip()

    def digest(self) -> Digest:
        return canon.digest("request", self.to_data())


def new_request(text: str, parts: list[InputPart] | None = None) -> Request:
    """A request that can be taken, its text in Unicode normal form C.

    Raises ``RequestError``: ``request.empty``, ``request.too_large``, ``request.too_many_parts``, ``request.text``.
    """
    if not text.strip():
        raise RequestError(
            "request.empty", "The request is empty.", hint="Say in a sentence what you want to know."
        )
    try:
        size = len(text.encode("utf-8"))
    except UnicodeEncodeError:
        raise RequestError("request.text", "The request is not Unicode text.") from None
    if size > REQUEST_TEXT_BYTES_MAX:
        raise RequestError(
            "request.too_large",
            f"The request has {size} bytes; {REQUEST_TEXT_BYTES_MAX} are the most.",
            hint="Put data into an input part or a source.",
        )
    if parts and len(parts) > REQUEST_PARTS_MAX:
        raise RequestError(
            "request.too_many_parts", f"A request has at most {REQUEST_PARTS_MAX} input parts."
        )
    return Request(text=unicodedata.normalize("NFC", text), parts=parts or [])


class Question(Model):
    """One precise question to the person, with the answers that would do."""

    parameter: str
    text: str
    choices: list[str] = Field(default_factory=list)


class Binding(Model):
    """What the planner recognised of a request, before any plan: the input of the route.

    ``playbook`` and ``metric`` are names of the package, or ``None``. ``parameters`` are typed values. ``question`` is
    set exactly when a playbook, a metric, or the form of a question about one value matches and something does not
    bind. ``single_value`` says that the request asks for one value of one known metric, which one read answers.
    """

    playbook: str | None = None
    metric: str | None = None
    parameters: dict[str, Any] = Field(default_factory=dict)
    question: Question | None = None
    single_value: bool = False
    sensitive: bool = False
    estimate_cost: int = 0

    @property
    def matched(self) -> bool:
        return self.playbook is not None or self.metric is not None or self.question is not None


RouteName = Literal["clarify", "direct", "constrained", "orchestrated", "none"]
