"""cluster.yaml is a file that Ray's own launcher takes."""

from __future__ import annotations

import copy
import shlex

import jsonschema
import pytest
import yaml
from ray.autoscaler._private import util as autoscaler

from source_tree import CHECKOUT


@pytest.fixture(scope="module")
def config() -> dict:
    return yaml.safe_load((CHECKOUT / "cluster.yaml").read_text(encoding="utf-8"))


def prepared(config: dict) -> dict:
    """What the launcher makes of a file before it validates it: its provider's defaults filled in."""
    return autoscaler.prepare_config(copy.deepcopy(config))


def test_ray_accepts_it(config):
    full = prepared(config)
    autoscaler.validate_config(full)
    assert full["available_node_types"][full["head_node_type"]]["max_workers"] == len(
        config["provider"]["worker_ips"]
    )


@pytest.mark.parametrize(
    "change", [{"cluster_name": 7}, {"heads": 1}, {"provider": {}}, {"setup_commands": "one"}]
)
def test_ray_refuses_a_broken_one(config, change):
    """The check above can fail."""
    with pytest.raises(jsonschema.ValidationError):
        autoscaler.validate_config({**prepared(config), **change})


def test_every_node_starts_duly_with_token_authentication(config):
    for kind, flag in (("head_start_ray_commands", "--head"), ("worker_start_ray_commands", "--worker")):
        start = shlex.split(config[kind][-1])
        assert "RAY_AUTH_MODE=token" in start
        assert any(word.startswith("RAY_AUTH_TOKEN_PATH=") for word in start)
        assert [word for word in start if word.endswith("/duly")], start
        assert start[start.index("node") : start.index("node") + 3] == ["node", "start", flag]


def test_its_addresses_are_for_documentation(config):
    addresses = [config["provider"]["head_ip"], *config["provider"]["worker_ips"]]
    assert len(set(addresses)) == 3
    assert all(address.startswith("192.0.2.") for address in addresses)
