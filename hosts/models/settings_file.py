"""``$DULY_HOME/models.toml``: the models of this installation, where no environment names them.

    planner  = "openai:NAME"
    critic   = "openai:NAME"
    base_url = "http://127.0.0.1:PORT/v1"
    api_key  = "KEY"

Written by ``duly model serve`` (without a key) or by hand, mode 0600, read anew at each call. The key stands here in plain, so a file
that others may read is refused.
"""

from __future__ import annotations

import os
import stat
import tomllib
from pathlib import Path

from pydantic import Field, ValidationError

from duly.protocol.plan.model_call import ModelRole
from duly.protocol.plan.model_settings import BaseUrl, ModelName
from duly.protocol.wire.errors import ModelError
from duly.protocol.wire.limits import PACKAGE_FILE_BYTES_MAX
from duly.protocol.wire.model import Model, faults_of

FILE = "models.toml"


class SettingsFile(Model):
    """What the file says. An absent field is empty."""

    planner: ModelName | None = None
    critic: ModelName | None = None
    base_url: BaseUrl | None = None
    api_key: str | None = Field(default=None, min_length=1, max_length=4_000, repr=False)

    def of(self, role: ModelRole) -> str | None:
        """The model of a role, as ``provider:name``."""
        return self.planner if role == "planner" else self.critic

    @classmethod
    def read(cls, path: Path) -> SettingsFile:
        """What stands in the file; nothing where there is none. Raises ``ModelError`` ``model.bad_setting``."""
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            return cls()
        except OSError as error:
            raise _bad(path, f"It cannot be read ({error.strerror}).") from None
        with os.fdopen(fd, "rb") as file:
            state = os.fstat(fd)
            if state.st_uid != os.getuid() or state.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
                raise _bad(path, "Other users of this machine may use it.", "Give it mode 0600.")
            data = file.read(PACKAGE_FILE_BYTES_MAX + 1)
        if len(data) > PACKAGE_FILE_BYTES_MAX:
            raise _bad(path, "It is too large.")
        try:
            return cls.model_validate(tomllib.loads(data.decode("utf-8")))
        except ValidationError as problem:
            faults = faults_of(problem, "model.bad_setting")
            raise ModelError(
                "model.bad_setting",
                f"The settings of the models are not valid: {faults[0].path}: {faults[0].message}",
                place=str(path),
                faults=faults,
            ) from None
        except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError):
            raise _bad(path, "This is no TOML.") from None


def _bad(path: Path, why: str, hint: str = "Correct it, or remove it.") -> ModelError:
    return ModelError(
        "model.bad_setting", f"The settings of the models cannot be used. {why}", place=str(path), hint=hint
    )
