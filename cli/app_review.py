"""The commands that tell about what was done and where: watch, report, metrics, doctor; and init, which begins."""

from __future__ import annotations

from typing import Annotated

import typer

Home = Annotated[
    str | None, typer.Option("--home", metavar="DIR", help="The data directory; else $DULY_HOME.")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on one line, and nothing else.")]


def register(app: typer.Typer) -> None:
    """Adds these commands to the application, in the order in which help lists them."""
    app.command()(metrics)


def metrics(
    since: Annotated[
        str | None,
        typer.Option(
            "--since", metavar="TIME", help="Only runs submitted since: 7d, 24h, a day, or an RFC 3339 time."
        ),
    ] = None,
    last: Annotated[int | None, typer.Option("--last", min=1, help="Only the newest N runs.")] = None,
    home: Home = None,
    json: Json = False,
) -> int:
    """Count success, effective steps, recovery, escalation, budget, state and plan over runs.

    Each metric has its numerator and denominator; docs/metrics.md defines
    them by kinds of events. Starts no runtime.

    Example:

        duly metrics --since 7d
    """
    from . import metrics as command
    from .records import home_of

    return command.metrics(home_of(home), since=since, last=last, json=json)
