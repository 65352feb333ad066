"""``duly plan --save FILE``: a good plan as a playbook's file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from duly.protocol.plan.descriptor import Descriptor
from duly.protocol.plan.package import load_package
from duly.protocol.plan.plan import Plan
from duly.protocol.plan.playbook_yaml import parse_playbook
from duly.protocol.views.plan_playbook import playbook_of
from duly.protocol.wire.errors import PlanError
from duly.storage.home import Home

from .package import files_of


@dataclass(frozen=True, slots=True)
class Saved:
    """A playbook's file, and the kinds of its parameters by name: of what the request may say another value."""

    file: Path
    parameters: dict[str, str] = field(default_factory=dict)

    @property
    def takes(self) -> str:
        """Which requests it plans, in words."""
        if not self.parameters:
            return (
                "this request only: no value of it is an argument of the plan and stands nowhere else in it"
            )
        named = ", ".join(f"{name} ({kind})" for name, kind in self.parameters.items())
        return f"this request, and the same one with another {named}"


def save(file: str, plan: Plan, home: Home, package: str, descriptors: Mapping[str, Descriptor]) -> Saved:
    """Writes the playbook of a plan into a new file; its name, without the ending, is the playbook's.

    Raises ``PlanError``: ``plan.no_playbook_of`` with every fault, ``plan.file`` where the file is there already or
    cannot be written; then nothing is.
    """
    path = Path(file)
    if path.suffix not in (".yaml", ".yml"):
        raise PlanError("plan.file", "A playbook's file ends in .yaml.", place=file)
    files, place = files_of(home, package)
    data = playbook_of(plan, load_package(files, place), descriptors, name=path.stem)
    try:
        with path.open("xb") as new:
            new.write(data)
    except FileExistsError:
        raise PlanError(
            "plan.file", "This file is there already.", place=file, hint="Name another, or remove it first."
        ) from None
    except OSError as error:
        raise PlanError("plan.file", f"The file cannot be written: {error.strerror}.", place=file) from None
    kept = parse_playbook(data, path.name)
    return Saved(path, {name: one.kind for name, one in kept.parameters.items()})
