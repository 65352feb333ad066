"""The commands of ``duly`` as Typer knows them: arguments, options and help. What they do stands in their modules.

Modules are imported when their command runs: ``duly --help`` must not pay for cryptography and the stores.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from . import app_look, app_model, app_review, app_steer

app = typer.Typer(
    name="duly",
    help="Agent work as plans that are approved, executed and verified.",
    epilog="Every command has --help with an example. Exit codes: see `duly run --help`.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80},
)

Home = Annotated[
    str | None, typer.Option("--home", metavar="DIR", help="The data directory; else $DULY_HOME.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, one document a line, and nothing else.")]
Agent = Annotated[
    str, typer.Argument(metavar="AGENT", help="A package: its folder, or its name once it was run.")
]
Text = Annotated[str, typer.Argument(metavar="REQUEST", help="What you want, in a sentence.")]
MaybeAgent = Annotated[
    str | None, typer.Argument(metavar="AGENT", help="A package: its folder, or its name once it was run.")
]
MaybeText = Annotated[str | None, typer.Argument(metavar="REQUEST", help="What you want, in a sentence.")]
Which = Annotated[str | None, typer.Option("--agent", metavar="NAME", help="Which agent of the package.")]
Input = Annotated[
    list[str] | None, typer.Option("--input", metavar="NAME=VALUE", help="One more input part.")
]
Planning = Annotated[str | None, typer.Option("--planning", metavar="MODE", help="auto, never or always.")]
Run = Annotated[str, typer.Argument(metavar="RUN", help="The run's id, or the beginning of it.")]
PlanFile = Annotated[str | None, typer.Option("--plan", metavar="FILE", help="Your own plan, JSON or YAML.")]
Tier = Annotated[
    str | None,
    typer.Option("--tier", metavar="TIER", help="assisted, supervised, bounded_autonomous, long_autonomous."),
]
Gate = Annotated[str | None, typer.Option("--gate", metavar="MODE", help="consequential or always.")]
Budget = Annotated[
    list[str] | None,
    typer.Option("--budget", metavar="NAME=AMOUNT", help="Such as steps=20; more than once."),
]
Schedule = Annotated[str | None, typer.Option("--schedule", metavar="KIND", help="levels or overlap.")]
Detach = Annotated[bool, typer.Option("--detach", help="Submit, print the run's id, do not wait.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Approve every gate; recorded as your approval.")]


@app.callback()
def duly(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show tracebacks of errors; may stand anywhere.")
    ] = False,
) -> None:
    """Agent work as plans that are approved, executed and verified."""
    # Both are taken off the command line by ``entry`` before it comes here; they stand here to be listed.


@app.command()
def route(
    agent: Agent,
    request: Text,
    which: Which = None,
    planning: Planning = None,
    inputs: Input = None,
    home: Home = None,
    json: Json = False,
) -> int:
    """Show how a request would be judged, and why. Nothing is run.

    Example:

        duly route examples/flights "How many flights departed in March?"
    """
    from . import preview
    from .records import home_of
    from .run import asked

    wish = asked(agent, request, inputs=inputs or (), json=json, agent=which, planning=planning)
    return preview.route(home_of(home), wish)


@app.command()
def plan(
    agent: Agent,
    request: Text,
    which: Which = None,
    inputs: Input = None,
    full: Annotated[
        bool, typer.Option("--full", help="Show every step with arguments and contract.")
    ] = False,
    save: Annotated[
        str | None,
        typer.Option("--save", metavar="FILE", help="Keep the plan as a playbook, which needs no model."),
    ] = None,
    home: Home = None,
    json: Json = False,
) -> int:
    """Show the plan of a request. Nothing is run.

    The plan of --json can be changed and given to `duly run --plan`.
    With --save PACKAGE/playbooks/NAME.yaml this request, and the same one
    with other values, is planned without a model from then on.

    Example:

        duly plan examples/flights "Compare May and June." --full
    """
    from . import preview
    from .records import home_of
    from .run import asked

    return preview.plan(
        home_of(home),
        asked(agent, request, inputs=inputs or (), json=json, agent=which),
        full=full,
        save=save,
    )


@app.command()
def run(
    agent: MaybeAgent = None,
    request: MaybeText = None,
    from_run: Annotated[
        str | None, typer.Option("--from", metavar="RUN", help="Continue a run that ended short of its end.")
    ] = None,
    replay: Annotated[
        str | None,
        typer.Option("--replay", metavar="RUN", help="Run it again with its models' recorded answers."),
    ] = None,
    which: Which = None,
    inputs: Input = None,
    plan_file: PlanFile = None,
    planning: Planning = None,
    tier: Tier = None,
    gate: Gate = None,
    budget: Budget = None,
    schedule: Schedule = None,
    shadow: Annotated[
        bool, typer.Option("--shadow", help="Run the reads; record what writes would have done.")
    ] = False,
    yes: Yes = False,
    detach: Detach = False,
    home: Home = None,
    json: Json = False,
) -> int:
    """Run a request: plan, approval where it matters, execution, verification, report.

    With --from, leave REQUEST out for the same request, and AGENT for the
    same snapshot of the package; what still holds is used again.
    Ctrl-C once cancels cleanly, twice leaves at once.

    Exit codes: 0 COMPLETED, 1 internal, 2 usage, 3 FAILED, 4 PARTIAL,
    5 CANCELLED, 6 WAITING_APPROVAL, 7 WAITING_INPUT; 8 refused.

    Example:

        duly run examples/flights "Why did arrivals get worse in June?"

        duly run --from r4k2m9qxw7
    """
    from . import run as command
    from .records import home_of

    given: dict[str, Any] = {
        "inputs": inputs or (),
        "plan": plan_file,
        "budget": budget or (),
        "yes": yes,
        "detach": detach,
        "json": json,
        "shadow": shadow,
        "agent": which,
        "planning": planning,
        "tier": tier,
        "gate": gate,
        "schedule": schedule,
    }
    return command.run(home_of(home), command.wished(home_of(home), from_run, agent, request, given, replay))


@app.command()
def approve(
    run: Run,
    with_references: Annotated[
        bool,
        typer.Option("--with-references", help="Also cover arguments that come from earlier steps, unseen."),
    ] = False,
    yes: Yes = False,
    home: Home = None,
    json: Json = False,
) -> int:
    """Show what waits, sign exactly that, and follow the run to its next stop.

    Look first with `duly inbox RUN`; this command is the approval.

    Example:

        duly approve r4k2m9qxw7
    """
    from . import decide
    from .records import home_of

    return decide.approve(home_of(home), run, with_references=with_references, yes=yes, json=json)


@app.command()
def reject(
    run: Run,
    feedback: Annotated[
        str | None, typer.Option("--feedback", metavar="TEXT", help="What the next plan must do differently.")
    ] = None,
    home: Home = None,
    json: Json = False,
) -> int:
    """Say no to what waits. Without feedback the run ends; with it another plan is made.

    Example:

        duly reject r4k2m9qxw7 --feedback "Leave the incident file alone."
    """
    from . import decide
    from .records import home_of

    return decide.reject(home_of(home), run, feedback=feedback, json=json)


@app.command()
def answer(
    run: Run,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The answer.")],
    home: Home = None,
    json: Json = False,
) -> int:
    """Answer the question of a run that waits for input, and follow it on.

    Example:

        duly answer r4k2m9qxw7 "June 2013"
    """
    from . import decide
    from .records import home_of

    return decide.answer(home_of(home), run, text, json=json)


@app.command()
def cancel(
    run: Run,
    reason: Annotated[
        str, typer.Option("--reason", metavar="TEXT", help="Why, for the record.")
    ] = "a person",
    home: Home = None,
    json: Json = False,
) -> int:
    """End a run. What still runs is killed; what happened stays.

    Example:

        duly cancel r4k2m9qxw7
    """
    from . import decide
    from .records import home_of

    return decide.cancel(home_of(home), run, reason=reason, json=json)


app_steer.register(app)
app_look.register(app)
app_model.register(app)
app_review.register(app)
