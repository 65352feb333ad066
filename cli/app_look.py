"""The commands that look, and those for the runtime: runs, show, inbox, cache, audit, tools, up, down, status, node."""

from __future__ import annotations

from typing import Annotated

import typer

from duly.protocol.wire.limits import CACHE_MAX_AGE_DAYS, RUNS_LISTED

from . import app_node

Home = Annotated[
    str | None, typer.Option("--home", metavar="DIR", help="The data directory; else $DULY_HOME.")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on one line, and nothing else.")]
MaybeRun = Annotated[
    str | None, typer.Argument(metavar="[RUN]", help="The run's id, or the beginning of it.")
]

cache = typer.Typer(help="Plans that passed and are used again.", no_args_is_help=True, rich_markup_mode=None)
audit = typer.Typer(help="The signed log of all events.", no_args_is_help=True, rich_markup_mode=None)
tools = typer.Typer(help="The tools of a package.", no_args_is_help=True, rich_markup_mode=None)


def register(app: typer.Typer) -> None:
    """Adds these commands to the application, in the order in which help lists them."""
    app.command()(runs)
    app.command()(show)
    app.command()(inbox)
    app.add_typer(cache, name="cache")
    app.add_typer(audit, name="audit")
    app.add_typer(tools, name="tools")
    app.command()(up)
    app.command()(down)
    app.command()(status)
    app.add_typer(app_node.node, name="node")


def runs(
    limit: Annotated[int, typer.Option("--limit", min=1, help="How many of the newest runs.")] = RUNS_LISTED,
    home: Home = None,
    json: Json = False,
) -> int:
    """List the newest runs with phase and verdict. Starts no runtime.

    Example:

        duly runs --limit 50
    """
    from . import run_list
    from .records import home_of

    return run_list.runs(home_of(home), limit=limit, json=json)


def show(
    run: MaybeRun = None,
    step: Annotated[
        str | None, typer.Argument(metavar="[STEP]", help="A step of the run: its story alone.")
    ] = None,
    step_option: Annotated[
        str | None, typer.Option("--step", metavar="STEP", help="The same, also of the newest run.")
    ] = None,
    queries: Annotated[bool, typer.Option("--queries", help="Show the queries behind the report.")] = False,
    home: Home = None,
    json: Json = False,
) -> int:
    """Show one run (the newest, if none is named): state, plan, times, report, checks, budget, story.

    Starts no runtime.

    Example:

        duly show r4k2m9qxw7
        duly show r4k2m9qxw7 s2
    """
    from . import show as command
    from .records import home_of

    return command.show(home_of(home), run, step=step or step_option, json=json, queries=queries)


def inbox(run: MaybeRun = None, home: Home = None, json: Json = False) -> int:
    """List what waits for a person, for whom and since when; with RUN, exactly what an approval of it would sign.

    Starts no runtime.

    Example:

        duly inbox r4k2m9qxw7
    """
    from . import inbox as command
    from .records import home_of

    return command.inbox(home_of(home), run, json=json)


@cache.command("stats")
def cache_stats(home: Home = None, json: Json = False) -> int:
    """Show how often plans were served, and how many are kept.

    Example:

        duly cache stats
    """
    from . import cache as command
    from .records import home_of

    return command.stats(home_of(home), json=json)


@cache.command("list")
def cache_list(home: Home = None, json: Json = False) -> int:
    """List the kept plans, the newest first.

    Example:

        duly cache list
    """
    from . import cache as command
    from .records import home_of

    return command.entries(home_of(home), json=json)


@cache.command("show")
def cache_show(
    key: Annotated[str, typer.Argument(metavar="KEY", help="The key, or its first digits.")],
    home: Home = None,
    json: Json = False,
) -> int:
    """Show one kept plan.

    Example:

        duly cache show 3fa9c2d1
    """
    from . import cache as command
    from .records import home_of

    return command.show(home_of(home), key, json=json)


@cache.command("evict")
def cache_evict(
    max_age_days: Annotated[
        int, typer.Option("--max-age-days", min=0, help="Remove what is older.")
    ] = CACHE_MAX_AGE_DAYS,
    home: Home = None,
    json: Json = False,
) -> int:
    """Remove old plans. Nothing is ever removed without this.

    Example:

        duly cache evict --max-age-days 30
    """
    from . import cache as command
    from .records import home_of

    return command.evict(home_of(home), max_age_days, json=json)


@cache.command("clear")
def cache_clear(home: Home = None, json: Json = False) -> int:
    """Remove every kept plan.

    Example:

        duly cache clear
    """
    from . import cache as command
    from .records import home_of

    return command.clear(home_of(home), json=json)


@audit.command("log")
def audit_log(run: MaybeRun = None, home: Home = None, json: Json = False) -> int:
    """Print the events of a run, or of all, as they are recorded. Starts no runtime.

    Example:

        duly audit log r4k2m9qxw7 --json
    """
    from . import audit as command
    from .records import home_of

    return command.log(home_of(home), run, json=json)


@audit.command("verify")
def audit_verify(
    key: Annotated[
        str | None,
        typer.Option("--key", metavar="KEY", help="The log's public key, as name+id+base64; else keys/."),
    ] = None,
    home: Home = None,
    json: Json = False,
) -> int:
    """Check every entry, node, checkpoint and artifact with the public key alone. Exit code 8 if one fails.

    Example:

        duly audit verify
    """
    from . import audit as command
    from .records import home_of

    return command.verify(home_of(home), key=key, json=json)


@tools.command("list")
def tools_list(
    package: Annotated[str, typer.Argument(metavar="AGENT", help="A package: its folder, or its name.")],
    which: Annotated[
        str | None, typer.Option("--agent", metavar="NAME", help="Which agent of the package.")
    ] = None,
    home: Home = None,
    json: Json = False,
) -> int:
    """List the tools that an agent is granted, and what each may do.

    Example:

        duly tools list examples/flights
    """
    from . import preview
    from .records import home_of

    return preview.tools(home_of(home), package, which, json=json)


def up(home: Home = None, json: Json = False) -> int:
    """Start the local runtime now. Other commands start it by themselves.

    Example:

        duly up
    """
    from . import node
    from .records import home_of

    return node.up(home_of(home), json=json)


def down(home: Home = None, json: Json = False) -> int:
    """Stop the local runtime. Runs that wait stay waiting.

    Example:

        duly down
    """
    from . import node
    from .records import home_of

    return node.down(home_of(home), json=json)


def status(home: Home = None, json: Json = False) -> int:
    """List the processes of the runtime with their memory. Exit code 8 where none runs.

    Example:

        duly status
    """
    from . import node
    from .records import home_of

    return node.status(home_of(home), json=json)
