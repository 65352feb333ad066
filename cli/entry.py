"""The program ``duly``: which way a command line goes, and how every way ends.

``duly runs`` and ``duly status`` are asked all day, by people and by scripts: in their plain forms they are taken apart
here by hand and never load Typer (170 ms). Everything else, ``--help`` of these two included, goes to Typer.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from . import exit_codes

INTERRUPTED = 130
NOBODY_READS = 141  # what a shell says of a program that SIGPIPE ended
FOLLOWING = ("run", "approve", "reject", "answer", "edit", "guide", "amend", "resume")


@dataclass(frozen=True, slots=True)
class Plain:
    """A fast command in a form that needs no parser."""

    command: str
    home: str | None = None
    json: bool = False
    limit: int | None = None


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command line (the process's own, if none is given) and gives the exit code."""
    from . import output, standard_streams

    given = list(sys.argv[1:] if arguments is None else arguments)
    given, debug = without_debug(given)
    try:
        standard_streams.open_all()
        output.prepare()
        return _run(given)
    except KeyboardInterrupt:
        print("\nduly: stopped.", file=sys.stderr)
        return exit_codes.PHASES["CANCELLED"] if given[:1] and given[0] in FOLLOWING else INTERRUPTED
    except BrokenPipeError:
        # The reader of our output left (`duly show | head`): nothing is wrong, and nothing more can be said. A command
        # that followed a run saw no end of it, so its code is none of a phase.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return NOBODY_READS if given[:1] and given[0] in FOLLOWING else exit_codes.DONE
    except Exception as error:  # noqa: BLE001 - the one place where everything unexpected becomes a sentence
        return output.fail(error, debug=debug)


def without_debug(arguments: list[str]) -> tuple[list[str], bool]:
    """``--debug`` may stand anywhere before ``--``; it is no option of any command."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    options = [one for one in arguments[:end] if one != "--debug"]
    return [*options, *arguments[end:]], len(options) < end


def plain(arguments: Sequence[str]) -> Plain | None:
    """A plain ``runs`` or ``status``, or ``None`` for anything that Typer must look at."""
    if not arguments or arguments[0] not in ("runs", "status"):
        return None
    home, json, limit = None, False, None
    rest = list(arguments[1:])
    while rest:
        option = rest.pop(0)
        if option == "--json":
            json = True
        elif option == "--home" and rest:
            home = rest.pop(0)
        elif option == "--limit" and rest and arguments[0] == "runs" and _is_count(rest[0]):
            limit = int(rest.pop(0))
        else:
            return None
    return Plain(arguments[0], home, json, limit)


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and int(text[:18]) > 0


def _run(arguments: list[str]) -> int:
    if arguments in (["--version"], ["-V"]):
        from duly import __version__

        print(f"duly {__version__}")
        return exit_codes.DONE
    fast = plain(arguments)
    return _typer(arguments) if fast is None else _fast(fast)


def _fast(command: Plain) -> int:
    from duly.storage.home import VARIABLE, Home

    home = Home.resolve() if command.home is None else Home.resolve({VARIABLE: command.home})
    if command.command == "status":
        from . import node

        return node.status(home, json=command.json)
    from duly.protocol.wire.limits import RUNS_LISTED

    from . import run_list

    return run_list.runs(home, limit=command.limit or RUNS_LISTED, json=command.json)


def _typer(arguments: list[str]) -> int:
    from typer.main import get_command

    from .app import app

    command: Callable[..., object] = get_command(app).main
    try:
        code = command(arguments, prog_name="duly", standalone_mode=False)
    except SystemExit as ended:
        # Typer ends the process by itself where nobody reads its output, and keeps the error that says so.
        if isinstance(ended.__context__, BrokenPipeError):
            sys.stdout = sys.__stdout__
            raise ended.__context__ from None
        raise
    except Exception as error:
        # Typer carries its own copy of click under a private name; its usage errors are known by what they can do.
        told = getattr(error, "format_message", None)
        if type(error).__name__ == "Abort":
            raise KeyboardInterrupt from None
        if told is None:
            raise
        return _usage(error, str(told()))
    if code == INTERRUPTED:  # newer versions of Typer turn Ctrl-C into this code, older ones into Abort
        raise KeyboardInterrupt
    return code if isinstance(code, int) else exit_codes.DONE


def _usage(error: Exception, message: str) -> int:
    """A command line that cannot be read. No arguments at all is a wish for help, which Typer has printed as message."""
    from duly.protocol.wire.errors import RequestError

    from .output import told

    context = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError":
        print(message)
        return exit_codes.USAGE
    path = context.command_path if context is not None else "duly"
    problem = RequestError("request.usage", message, hint=f"Try `{path} --help`.")
    for line in told(problem):
        print(line, file=sys.stderr)
    return exit_codes.USAGE


if __name__ == "__main__":
    sys.exit(main())
