"""The fields of front-door requests, read with care: they come from another process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from duly.protocol.plan.request import InputPart, Request, new_request
from duly.protocol.wire.errors import RequestError, WireError

Fields = Mapping[str, Any]


def run_named(fields: Fields) -> str:
    run_id = fields.get("run_id")
    if type(run_id) is not str:
        raise WireError("wire.bad_request", "The request names no run.")
    return run_id


def request_in(fields: Fields) -> Request:
    parts = fields.get("parts") or []
    if type(parts) is not list:
        raise RequestError("request.malformed", "The input parts are no list.")
    read = [
        InputPart.from_data(part, error=RequestError, code="request.malformed", what="An input part")
        for part in parts
    ]
    return new_request(str(fields.get("text", "")), read)
