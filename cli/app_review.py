"""The commands that tell about what was done and where: watch, report, metrics, doctor; and init, which begins."""

from __future__ import annotations

from typing import Annotated

import typer

Home = Annotated[
    str | None, typer.Option("--home", metavar="DIR", help="The data directory; else $DULY_HOME.")
]
Run = Annotated[str, typer.Argument(metavar="RUN", help="The run's id, or the beginning of it.")]
MaybeRun = Annotated[
    str | None, typer.Argument(metavar="[RUN]", help="The run's id, or the beginning of it.")
]
Events = Annotated[bool, typer.Option("--json", help="Print JSON, one document a line, and nothing else.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on one line, and nothing else.")]


def register(app: typer.Typer) -> None:
    """Adds these commands to the application, in the order in which help lists them."""
    app.command()(init)
    app.command()(watch)
    app.command()(report)
    app.command()(metrics)
    app.command()(doctor)


def init(
    folder: Annotated[str, typer.Argument(metavar="[DIR]", help="An empty folder, or one to be made.")] = ".",
    name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="The package's name; else the folder's.")
    ] = None,
    home: Home = None,
    json: Json = False,
) -> int:
    """Make a small agent package that runs: data, meaning, two playbooks, a tool.

    Refuses a folder that is not empty.

    Example:

        duly init shop
    """
    from . import init as command

    return command.init(folder, name=name, json=json)


def watch(
    run: Run,
    after: Annotated[
        int, typer.Option("--after", metavar="SEQ", help="Only events with a number above this one.")
    ] = -1,
    home: Home = None,
    json: Events = False,
) -> int:
    """Follow a run to its next stop. Ctrl-C stops the watching, not the run.

    Exit codes as for `duly run`; 130 after Ctrl-C.

    Example:

        duly watch r4k2m9qxw7
    """
    from . import watch as command
    from .records import home_of

    return command.watch(home_of(home), run, after=after, json=json)


def report(
    run: MaybeRun = None,
    html: Annotated[
        str | None,
        typer.Option("--html", metavar="FILE", help="Write one self-contained HTML file; - for output."),
    ] = None,
    home: Home = None,
    json: Json = False,
) -> int:
    """Report what a run (the newest, if none is named) found, and how to check it.

    The HTML file has the plan's graph, the times, charts, checks and
    approvals; it needs no network and no script. Starts no runtime.

    Example:

        duly report r4k2m9qxw7 --html report.html
    """
    from . import report_command
    from .records import home_of

    return report_command.report(home_of(home), run, html=html, json=json)


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


def doctor(
    package: Annotated[
        str | None,
        typer.Argument(metavar="[PACKAGE]", help="A package to look at too: its folder, or its name."),
    ] = None,
    home: Home = None,
    json: Json = False,
) -> int:
    """Say what holds on this machine: versions, data, keys, runtime, log, sandbox.

    Exit code 0 when duly is usable, 8 when something needed is broken.
    Starts no runtime and runs no code of the package.

    Example:

        duly doctor examples/flights
    """
    from . import doctor as command
    from .records import home_of

    return command.doctor(home_of(home), package, json=json)
