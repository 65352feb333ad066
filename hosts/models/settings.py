"""Which model a call goes to, with which key: the environment of the supervisor, else the installation, else the package.

The first of these that names a model for the role decides alone. Name, address and key come from one place together, so
that a package can never have a key of yours sent to an address of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from duly.protocol.plan.model_settings import BaseUrl, ModelName, Models
from duly.protocol.wire.errors import DulyError, ModelError
from duly.protocol.wire.ids import is_digest

from .config import ModelHostConfig
from .settings_file import SettingsFile

_NAME: TypeAdapter[str] = TypeAdapter(ModelName)
_ADDRESS: TypeAdapter[str] = TypeAdapter(BaseUrl)


@dataclass(frozen=True, slots=True)
class Setting:
    """One model: ``model`` is ``provider:name``; without ``base_url`` the provider's own address; ``key`` may be empty.

    ``origin`` says where all of it comes from.
    """

    model: str
    base_url: str
    key: str = field(repr=False)
    origin: str

    @property
    def provider(self) -> str:
        return self.model.partition(":")[0]

    @property
    def name(self) -> str:
        return self.model.partition(":")[2]


class Settings:
    """The settings of one model host. Snapshots never change, so what their manifests say is kept."""

    def __init__(self, config: ModelHostConfig) -> None:
        self._config = config
        self._role = config.role
        self._packages: dict[str, Models] = {}

    def named(self, package: str) -> str:
        """The model that a call for this package would go to, ``""`` for none; never raises."""
        if self._config.model:
            return self._config.model
        try:
            written = SettingsFile.read(Path(self._config.settings)).of(self._role)
        except ModelError:
            return "unknown:models.toml"  # a model is meant; the call itself says what is wrong with the file
        try:
            return written or self._models(package).of(self._role) or ""
        except DulyError:
            return ""

    def of(self, package: str) -> Setting:
        """The setting for a call. Raises ``ModelError``: ``model.none``, ``model.bad_setting``."""
        if self._config.model:
            return self._from_environment()
        written = SettingsFile.read(Path(self._config.settings))
        if name := written.of(self._role):
            setting = Setting(name, written.base_url or "", written.api_key or "", self._config.settings)
        else:
            setting = self._from_package(package)
        return _checked(setting)

    def _from_environment(self) -> Setting:
        variable = f"DULY_MODEL_{self._role.upper()}"
        setting = Setting(
            _valid(_NAME, self._config.model, variable),
            _valid(_ADDRESS, self._config.base_url, "DULY_MODEL_BASE_URL") if self._config.base_url else "",
            self._config.api_key,
            variable,
        )
        return _checked(setting)

    def _from_package(self, package: str) -> Setting:
        try:
            models = self._models(package)
        except ModelError:
            raise
        except DulyError as problem:
            raise ModelError(
                "model.bad_setting",
                f"The package cannot be read: {problem.message}",
                place=problem.place,
                story=[str(problem)],
            ) from None
        name = models.of(self._role)
        if name is None:
            raise ModelError(
                "model.none",
                f"No model is set for the {self._role}.",
                hint=f'Name one in [models] of the package ({self._role} = "provider:name"), or set '
                f"DULY_MODEL_{self._role.upper()} and start the runtime again (`duly down`).",
            )
        key = ""
        if models.api_key is not None:
            secret = models.api_key.secret
            key = self._config.secrets.get(secret, "")
            if not key:
                raise ModelError(
                    "model.bad_setting",
                    f"The package asks for the secret {secret}, which is not set.",
                    place="agent.toml: models/api_key",
                    hint=f"Set DULY_{self._role.upper()}_SECRET_{secret} and start the runtime again (`duly down`).",
                )
        return Setting(name, models.base_url or "", key, "agent.toml")

    def _models(self, package: str) -> Models:
        if not is_digest(package):
            raise ModelError("model.bad_setting", "This is no digest of a package.")
        known = self._packages.get(package)
        if known is None:
            from ..tools.registry import open_package  # heavy, and a host that nobody asks needs none of it

            snapshot = open_package(Path(self._config.packages) / package, package)
            known = self._packages[package] = snapshot.manifest.models
        return known


def _valid(form: TypeAdapter[str], text: str, variable: str) -> str:
    try:
        return form.validate_python(text)
    except ValidationError as problem:
        said = str(problem.errors(include_url=False, include_input=False)[0]["msg"])
        raise ModelError(
            "model.bad_setting",
            f"{said.removeprefix('Value error, ')[:1].upper()}{said.removeprefix('Value error, ')[1:]}.",
            place=variable,
        ) from None


def _checked(setting: Setting) -> Setting:
    """A key goes into a header: a line end in it would be another header."""
    if any(not "!" <= sign <= "~" for sign in setting.key):
        raise ModelError(
            "model.bad_setting",
            "The key of the model holds blanks, line ends or signs that are not ASCII.",
            place=setting.origin,
        )
    return setting
