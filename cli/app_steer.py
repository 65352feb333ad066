"""The commands by which a person steers a run that is under way: edit, guide, amend, resume."""

from __future__ import annotations

from typing import Annotated

import typer

Home = Annotated[
    str | None, typer.Option("--home", metavar="DIR", help="The data directory; else $DULY_HOME.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, one document a line, and nothing else.")]
Run = Annotated[str, typer.Argument(metavar="RUN", help="The run's id, or the beginning of it.")]


def register(app: typer.Typer) -> None:
    """Adds these commands to the application, in the order in which help lists them."""
    app.command()(edit)
    app.command()(guide)
    app.command()(amend)
    app.command()(resume)


def edit(
    run: Run,
    file: Annotated[
        str | None, typer.Option("--file", metavar="FILE", help="The changed plan, YAML or JSON.")
    ] = None,
    show: Annotated[
        bool, typer.Option("--print", help="Print the plan's text, and do nothing else.")
    ] = False,
    home: Home = None,
    json: Json = False,
) -> int:
    """Change the plan that waits, in your editor ($VISUAL, $EDITOR) or as a file.

    The plan is validated and shown at its gate again, the difference first.
    A plan that is not valid is refused with every fault (exit code 8), and
    the one that waits stays.

    Example:

        duly edit r4k2m9qxw7
    """
    from . import edit as command
    from .records import home_of

    return command.edit(home_of(home), run, file=file, show=show, json=json)


def guide(
    run: Run,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What the next plan must take into account.")],
    home: Home = None,
    json: Json = False,
) -> int:
    """Say what every later plan of a run must take into account, and follow it on.

    At a plan gate another plan is made now; elsewhere the text waits for the
    next draft.

    Example:

        duly guide r4k2m9qxw7 "Leave out the first week of the month."
    """
    from . import decide
    from .records import home_of

    return decide.guide(home_of(home), run, text, json=json)


def amend(
    run: Run,
    request: Annotated[str, typer.Argument(metavar="REQUEST", help="What you want now, in a sentence.")],
    inputs: Annotated[
        list[str] | None,
        typer.Option("--input", metavar="NAME=VALUE", help="The input parts; left out, the old ones."),
    ] = None,
    home: Home = None,
    json: Json = False,
) -> int:
    """Change what a run is for. Shows what changes, and signs a new mandate for it.

    A new plan is made, which waits at its gate; results that are still right
    are kept.

    Example:

        duly amend r4k2m9qxw7 "Why did arrivals get worse in July?"
    """
    from . import amend as command
    from .records import home_of

    return command.amend(home_of(home), run, request, inputs=inputs or (), json=json)


def resume(
    run: Annotated[
        str | None, typer.Argument(metavar="[RUN]", help="The run's id, or the beginning of it.")
    ] = None,
    home: Home = None,
    json: Json = False,
) -> int:
    """Go on with a run, and follow it; without RUN, with every run that has not ended.

    Starts the runtime, and says of each run what it waits for.

    Example:

        duly resume
    """
    from . import resume as command
    from .records import home_of

    return command.resume(home_of(home), run, json=json)
