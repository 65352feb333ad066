"""``duly doctor``: what holds on this machine and of a package, without starting or changing anything.

A model that is set is asked one small question, where a runtime is up to ask it.
"""

from __future__ import annotations

from importlib import util
from itertools import groupby

from duly.storage.home import Home

from . import doctor_home, exit_codes
from .doctor_machine import machine
from .doctor_models import GROUP as MODELS
from .doctor_models import models
from .doctor_package import digest_of, package
from .finding import Finding
from .layout import bold, count, paragraph
from .output import emit, say

NAME_COLUMNS = 18
MARKS = {"ok": "ok", "note": "note", "broken": "BROKEN"}


def doctor(home: Home, named: str | None, *, json: bool = False) -> int:
    """Says what it finds. Exit code 0 when duly is usable, 8 when something that is needed is broken."""
    level, found = look(home, named)
    broken = [one for one in found if one.state == "broken"]
    if json:
        findings = [one.to_json() for one in found]
        emit({"usable": not broken, "assurance": level, "home": str(home.root), "findings": findings})
    else:
        say(_lines(found, broken))
    return exit_codes.REFUSED if broken else exit_codes.DONE


def look(home: Home, named: str | None) -> tuple[str, list[Finding]]:
    """The assurance level and every finding, in the order in which they are shown."""
    found = [*machine(), *doctor_home.folder(home), *doctor_home.keys(home)]
    said, processes = doctor_home.runtime(home)
    level, assured = doctor_home.assurance(home, processes)
    found += [*said, doctor_home.log(home), assured]
    if named is not None:
        found += package(home, named, duckdb=util.find_spec("duckdb") is not None)
    found += models(home, digest_of(home, named))
    return level, found


def _lines(found: list[Finding], broken: list[Finding]) -> list[str]:
    lines: list[str] = []
    for group, ones in groupby(found, key=lambda one: one.group):
        lines += [*([""] if lines else []), bold(group.upper())]
        for one in ones:
            lines += _finding_lines(one)
    lines += [""]
    if broken:
        usable = all(one.group == MODELS for one in broken)
        head = "Usable where playbooks plan, without a model" if usable else "Not usable"
        lines += paragraph(f"{head}: {count(len(broken), 'thing')} to mend, marked BROKEN above.")
    else:
        lines += ["Usable."]
    return lines


def _finding_lines(one: Finding) -> list[str]:
    head = f"  {MARKS[one.state]:<7} {one.name:<{NAME_COLUMNS}} "
    lines = paragraph(one.says, head, " " * len(head))
    return lines + (paragraph(one.hint, " " * len(head)) if one.hint else [])
