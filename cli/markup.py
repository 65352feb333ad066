"""HTML and SVG from parts: what is not markup is made harmless on the way in, so no text can become markup."""

from __future__ import annotations

import html
from collections.abc import Iterable

from duly.protocol.authority.printable import readable

VOID = frozenset(("br", "hr", "meta"))


class Html(str):
    """Markup. Only ``tag``, ``text`` and ``joined`` make it; every other text is escaped where it is used."""

    __slots__ = ()


def text(value: object) -> Html:
    """A text for a page: control, invisible and reordering characters shown by their escapes, then quoted for HTML."""
    return value if isinstance(value, Html) else Html(html.escape(readable(str(value)), quote=True))


def joined(parts: Iterable[object]) -> Html:
    """Parts one after the other."""
    return Html("".join(text(part) for part in parts))


def tag(name: str, /, *content: object, **attributes: object) -> Html:
    """An element. ``class_`` is ``class``, ``stroke_width`` is ``stroke-width``; an attribute of ``None`` is left out."""
    words = [name]
    for key, value in attributes.items():
        if value is not None:
            words.append(f'{key.rstrip("_").replace("_", "-")}="{text(_number(value))}"')
    start = f"<{' '.join(words)}>"
    return Html(start if name in VOID else f"{start}{joined(content)}</{name}>")


def lines(value: str) -> Html:
    """A text of several lines, each made harmless, for a ``pre``."""
    return Html("\n".join(text(line) for line in value.splitlines()))


def _number(value: object) -> object:
    """Coordinates with at most two decimals."""
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else value
