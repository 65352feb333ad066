"""The commands of a cluster's nodes as Typer knows them."""

from __future__ import annotations

from typing import Annotated

import typer

node = typer.Typer(help="This machine as a node of a cluster.", no_args_is_help=True, rich_markup_mode=None)

Home = Annotated[
    str | None, typer.Option("--home", metavar="DIR", help="The data directory; else $DULY_HOME.")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on one line, and nothing else.")]


@node.command("start")
def node_start(
    head: Annotated[
        bool, typer.Option("--head", help="Harness, journal and the other control actors.")
    ] = False,
    worker: Annotated[bool, typer.Option("--worker", help="Executors over hosts of this machine.")] = False,
    address: Annotated[
        str, typer.Option("--address", metavar="HOST:PORT", help="The head that a worker joins.")
    ] = "",
    name: Annotated[
        str, typer.Option("--name", metavar="NAME", help="The node's name; else the machine's.")
    ] = "",
    ip: Annotated[
        str, typer.Option("--ip", metavar="ADDRESS", help="Where other nodes reach this one.")
    ] = "",
    port: Annotated[int, typer.Option("--port", min=0, max=65_535, help="The head's; 0 for a free one.")] = 0,
    resource: Annotated[
        list[str] | None, typer.Option("--resource", metavar="NAME=AMOUNT", help="What Ray is told of it.")
    ] = None,
    home: Home = None,
    json: Json = False,
) -> int:
    """Start this machine's part of a cluster: its hosts, then Ray, then its actors.

    A worker needs the cluster's token (RAY_AUTH_TOKEN_PATH names its file)
    and the head's keys/public/harness.pub in its own keys/public; the head
    needs the worker's keys/hosts/*.pub in its keys/hosts.

    Example:

        duly node start --worker --address 192.0.2.10:6379
    """
    from . import cluster_node
    from .records import home_of

    this = cluster_node.described(
        head=head, worker=worker, address=address, name=name, ip=ip, port=port, resources=resource or ()
    )
    return cluster_node.start(home_of(home), this, json=json)


@node.command("stop")
def node_stop(home: Home = None, json: Json = False) -> int:
    """Stop this machine's part of the cluster. Nothing to do where none runs.

    Example:

        duly node stop
    """
    from . import cluster_node
    from .records import home_of

    return cluster_node.stop(home_of(home), json=json)
