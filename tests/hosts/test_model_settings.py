"""Where a model, its address and its key come from: one place decides all three, and a key never changes places."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from duly.hosts.installation import Installation, host_children, model_children, runtime_children
from duly.hosts.models.config import ModelHostConfig
from duly.hosts.models.settings import Setting, Settings
from duly.protocol.wire.errors import ModelError
from duly.storage.home import Home
from model_host_world import ModelHostWorld
from scripted_model_server import ScriptedModelServer

OWN = {"model": "openai:mine", "base_url": "http://mine/v1", "api_key": "my-own-key"}
PACKAGE = 'planner = "openai:theirs"\nbase_url = "http://theirs/v1"\napi_key = { secret = "KEY" }\n'


@pytest.fixture
def world() -> Iterator[ModelHostWorld]:
    world = ModelHostWorld()  # not started: its folders and packages are what is needed
    yield world
    world.close()


def settings_of(world: ModelHostWorld, **given: Any) -> Settings:
    return Settings(ModelHostConfig.model_validate({**world.config.to_data(), **given}))


def told(setting: Setting) -> tuple[str, str, str]:
    return setting.model, setting.base_url, setting.key


def refusal(settings: Settings, package: str) -> ModelError:
    with pytest.raises(ModelError) as caught:
        settings.of(package)
    return caught.value


def test_the_environment_wins_then_the_installation_then_the_package(world):
    package = world.add_package(PACKAGE)
    secrets = {"KEY": "their-key"}
    assert told(settings_of(world, secrets=secrets).of(package)) == (
        "openai:theirs",
        "http://theirs/v1",
        "their-key",
    )
    world.write_settings(planner="openai:local", base_url="http://127.0.0.1:1/v1/")
    local = ("openai:local", "http://127.0.0.1:1/v1", "")
    assert told(settings_of(world, secrets=secrets).of(package)) == local
    assert told(settings_of(world, **OWN).of(package)) == tuple(OWN.values())
    assert [settings_of(world, **given).named(package) for given in ({}, OWN)] == [
        "openai:local",
        "openai:mine",
    ]


def test_a_key_never_goes_to_an_address_of_another_place(world):
    """Whatever is set in each of the three places, the key that goes out comes from where the address comes from."""
    package = world.add_package(PACKAGE)
    for model in ("", "openai:mine"):
        for written in (False, True):
            if written:
                world.write_settings(planner="openai:local", base_url="http://local/v1", api_key="local-key")
            else:
                Path(world.config.settings).unlink(missing_ok=True)
            found = settings_of(
                world, model=model, base_url="", api_key="my-own-key", secrets={"KEY": "their-key"}
            ).of(package)
            own = {"openai:mine": ("", "my-own-key"), "openai:local": ("http://local/v1", "local-key")}
            assert (found.base_url, found.key) == own.get(found.model, ("http://theirs/v1", "their-key"))


def test_the_files_own_key_is_not_lent_to_the_package(world):
    package = world.add_package('planner = "openai:theirs"\nbase_url = "http://theirs/v1"\n')
    world.write_settings(critic="openai:local", api_key="local-key")
    assert settings_of(world).of(package).key == ""


def test_the_file_is_read_again_at_each_call(world):
    settings = settings_of(world)
    assert refusal(settings, world.package).code == "model.none"
    world.write_settings(planner="openai:a", base_url="http://a/v1")
    assert settings.of(world.package).model == "openai:a"
    world.write_settings(planner="openai:b", base_url="http://b/v1")
    assert settings.of(world.package).base_url == "http://b/v1"


def test_no_model_says_where_to_set_one(world):
    planner, critic = (
        refusal(settings_of(world), world.package),
        refusal(settings_of(world, role="critic"), world.add_package(PACKAGE)),
    )
    assert (planner.code, critic.code) == ("model.none", "model.none")
    assert "DULY_MODEL_PLANNER" in planner.hint and "DULY_MODEL_CRITIC" in critic.hint
    assert settings_of(world, role="critic").named(world.package) == ""


def test_a_secret_that_is_not_set_is_named(world):
    error = refusal(settings_of(world), world.add_package(PACKAGE))
    assert error.code == "model.bad_setting"
    assert "DULY_PLANNER_SECRET_KEY" in error.hint


@pytest.mark.parametrize(
    ("given", "place"),
    [
        ({"model": "gpt"}, "DULY_MODEL_PLANNER"),
        ({"model": "openai:x", "base_url": "mine/v1"}, "DULY_MODEL_BASE_URL"),
        ({"model": "openai:x", "api_key": "canary\r\nX-Other: 1"}, "DULY_MODEL_PLANNER"),
        ({"model": "openai:x", "api_key": "canary\u20ac"}, "DULY_MODEL_PLANNER"),
    ],
)
def test_a_bad_variable_is_named_and_not_repeated(world, given, place):
    error = refusal(settings_of(world, **given), world.package)
    assert (error.code, error.place) == ("model.bad_setting", place)
    assert "canary" not in str(error.to_data())


def test_a_file_that_others_may_read_is_refused(world):
    world.write_settings(planner="openai:a", api_key="canary-key")
    path = Path(world.config.settings)
    path.chmod(0o644)
    settings = settings_of(world)
    assert refusal(settings, world.package).code == "model.bad_setting"
    assert settings.named(world.package), "the call has to say what is wrong, so there has to be one"


@pytest.mark.parametrize(
    "text", ["planner = ", 'planer = "openai:x"', "planner = 3", "\xff", "a = " + "[" * 9_999]
)
def test_a_damaged_file_is_named(world, text):
    path = Path(world.config.settings)
    path.write_text(text, encoding="latin-1")
    path.chmod(0o600)
    error = refusal(settings_of(world), world.package)
    assert (error.code, error.place) == ("model.bad_setting", str(path))


def test_a_link_is_no_settings_file(world, tmp_path):
    (tmp_path / "elsewhere").write_text('planner = "openai:x"')
    Path(world.config.settings).symlink_to(tmp_path / "elsewhere")
    assert refusal(settings_of(world), world.package).code == "model.bad_setting"


def test_a_snapshot_that_was_changed_names_no_model(world):
    """Ray's processes can write the folder; the secret of a package goes only where its digest says."""
    package = world.add_package(PACKAGE)
    manifest = world.home / "packages" / package / "agent.toml"
    manifest.write_text(manifest.read_text().replace("theirs", "thieves"))
    settings = settings_of(world, secrets={"KEY": "their-key"})
    assert refusal(settings, package).code == "model.bad_setting"
    assert settings.named(package) == ""
    assert refusal(settings, "../../etc").code == "model.bad_setting"


def test_the_key_of_a_package_s_secret_reaches_its_server():
    with (
        ScriptedModelServer(lambda asked: {"answer": 5}, key="their-secret-key") as server,
        ModelHostWorld("critic", secrets={"KEY": "their-secret-key"}) as world,
    ):
        where = f'base_url = "{server.base_url}"\napi_key = {{ secret = "KEY" }}'
        world.add_package(f'critic = "openai:scripted"\n{where}\n')
        assert world.talk(lambda client: client.which(world.package)) == "openai:scripted"
        assert world.talk(lambda client: client.hello())["host"] == "critic"
        assert world.ask().value == {"answer": 5}


def test_which_and_unknown_providers():
    with ModelHostWorld() as world:
        world.write_settings(planner="opnai:x", api_key="some-key-of-it")
        assert world.talk(lambda client: client.which(world.package)) == "opnai:x"
        unknown = world.ask().error
        world.write_settings(planner="anthropic:claude", base_url="http://127.0.0.1:1")
        missing = world.ask().error
        world.write_settings(planner="openai:gpt-5-mini")
        keyless = world.ask().error
        world.write_settings(planner="bedrock:x", api_key="some-key-of-it")
        own_client = world.ask().error
    assert unknown.code == "model.bad_setting" and "'openai'" in unknown.message
    assert missing.code in ("model.extra_missing", "model.unreachable")
    assert keyless.code == "model.bad_setting" and "key" in keyless.message
    assert own_client.code in ("model.bad_setting", "model.extra_missing")


def test_without_the_extra_the_call_says_what_to_install(tmp_path):
    (tmp_path / "pydantic_ai").mkdir()
    (tmp_path / "pydantic_ai/__init__.py").write_text("raise ImportError('none', name='pydantic_ai')")
    with ScriptedModelServer([]) as server:
        world = ModelHostWorld()
        try:
            world.start(PYTHONPATH=str(tmp_path))
            world.renew(server.base_url)
            error = world.ask().error
        finally:
            world.close()
    assert error.code == "model.extra_missing"
    assert "duly[models]" in error.hint


def test_an_idle_host_has_not_imported_the_client_library():
    with ModelHostWorld() as world:
        assert world.talk(lambda client: client.which(world.package)) == ""
        mapped = Path(f"/proc/{world.process.pid}/maps").read_text() if os.getuid() == 0 else ""
        assert "jiter" not in mapped  # the client library's own parser, a shared object


def test_the_environment_reaches_the_model_hosts_only(duly_home):
    environment = {
        "DULY_MODEL_PLANNER": "openai:mine",
        "DULY_MODEL_BASE_URL": "http://mine/v1",
        "DULY_MODEL_API_KEY": "canary-key",
        "DULY_PLANNER_SECRET_KEY": "canary-planner",
        "DULY_CRITIC_SECRET_KEY": "canary-critic",
        "OPENAI_API_KEY": "canary-other",
    }
    installation = Installation(duly_home)
    planner, critic = model_children(installation, environment)
    given = [ModelHostConfig.decode(child.handed) for child in (planner, critic)]
    assert (given[0].model, given[0].api_key, given[0].secrets) == (
        "openai:mine",
        "canary-key",
        {"KEY": "canary-planner"},
    )
    assert (given[1].model, given[1].base_url, given[1].api_key) == ("", "", ""), (
        "no model, so no key for one"
    )
    assert given[1].secrets == {"KEY": "canary-critic"}
    assert [one.socket for one in given] == [
        str(Home(duly_home).socket_path(f"model-{one.role}")) for one in given
    ]
    others = [*host_children(installation, environment), *runtime_children(installation, environment)]
    for child in (*others, planner, critic):
        assert "canary" not in str(child.argv) + str(child.env)
    assert not any(b"canary" in (child.handed or b"") for child in others)
    assert sys.executable == planner.argv[0]
