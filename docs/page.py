"""Parts of a generated page: prose in lines, lists, tables, and what a model or a docstring says."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence

from duly.protocol.wire.model import Model

COLUMNS = 118


def fields(model: type[Model]) -> str:
    """The fields of a model with their types; ``?`` where one may be left out."""
    shown = []
    for name, field in model.model_fields.items():
        kind = (
            field.annotation
            if isinstance(field.annotation, type) and not hasattr(field.annotation, "__args__")
            else None
        )
        text = kind.__name__ if kind is not None else str(field.annotation)
        text = text.replace("typing.", "").replace("NoneType", "None")
        text = ".".join(text.split(".")[-1:]) if "[" not in text and "|" not in text else _short(text)
        shown.append(f"`{name}{'' if field.is_required() else '?'}: {text}`")
    return ", ".join(shown) or "nothing"


def _short(text: str) -> str:
    """A type without the modules of its names."""
    words = []
    for word in text.replace("[", " [ ").replace("]", " ] ").replace(",", " , ").split():
        words.append(word if word.startswith("'") else word.rpartition(".")[2])
    return " ".join(words).replace(" [ ", "[").replace(" ]", "]").replace(" ,", ",")


def rows(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield "|" + "---|" * len(head)
    for row in rows:
        yield f"| {' | '.join(' '.join(cell.split()).replace('|', chr(92) + '|') for cell in row)} |"


def prose(text: str) -> Iterator[str]:
    yield from textwrap.wrap(text, COLUMNS, break_long_words=False, break_on_hyphens=False)


def item(text: str) -> Iterator[str]:
    yield from textwrap.wrap(
        text,
        COLUMNS,
        initial_indent="- ",
        subsequent_indent="  ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def paragraph(doc: str | None, number: int = 0) -> str:
    """One paragraph of a docstring, on one line."""
    return " ".join(textwrap.dedent(doc or "").strip().split("\n\n")[number].split()).replace("``", "`")


def whole(doc: str | None) -> str:
    """All paragraphs of a docstring, on one line."""
    return " ".join(textwrap.dedent(doc or "").split()).replace("``", "`")


def sentence(doc: str | None) -> str:
    return paragraph(doc) if doc else ""


def listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
