"""The commands about language models as Typer knows them."""

from __future__ import annotations

from typing import Annotated

import typer

from duly.protocol.wire.limits import LOCAL_CONTEXT_TOKENS, LOCAL_CONTEXT_TOKENS_MIN

model = typer.Typer(
    help="The language models for planner and critic.\n\nExample:\n\n    duly model serve model.gguf",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Home = Annotated[
    str | None, typer.Option("--home", metavar="DIR", help="The data directory; else $DULY_HOME.")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on one line, and nothing else.")]


def register(app: typer.Typer) -> None:
    """Adds these commands to the application."""
    app.add_typer(model, name="model")


@model.command("serve")
def model_serve(
    file: Annotated[str, typer.Argument(metavar="FILE", help="The model, a GGUF file.")],
    port: Annotated[
        int, typer.Option("--port", min=0, max=65_535, help="On loopback; 0 for a free one.")
    ] = 0,
    context: Annotated[
        int, typer.Option("--context", min=LOCAL_CONTEXT_TOKENS_MIN, help="Tokens of prompt and answer.")
    ] = LOCAL_CONTEXT_TOKENS,
    threads: Annotated[
        int, typer.Option("--threads", min=0, max=1_024, help="Threads; 0 for one a core.")
    ] = 0,
    home: Home = None,
    json: Json = False,
) -> int:
    """Serve a model file on this machine, for planner and critic.

    Runs until Ctrl-C. Until then models.toml in the data directory names it,
    which a runtime reads at each call of a model; nothing to start again.
    Needs the extra: pip install "duly[local]".

    Example:

        duly model serve model.gguf --context 16384
    """
    from . import model_serve as command
    from .records import home_of

    return command.serve(home_of(home), file, port=port, context=context, threads=threads, json=json)
