"""JSON Schemas of what the metric tools take and give."""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]

NAME: Schema = {"type": "string", "minLength": 1, "maxLength": 64}
TEXT: Schema = {"type": "string", "maxLength": 1_000}
NUMBER: Schema = {"type": "number"}
NUMBER_OR_NULL: Schema = {"type": ["number", "null"]}
PERIOD: Schema = {
    "type": "object",
    "properties": {
        "year": {"type": ["integer", "null"], "minimum": 1, "maximum": 9998},
        "month": {"type": "integer", "minimum": 1, "maximum": 12},
    },
    "required": ["month"],
    "additionalProperties": False,
}
FILTERS: Schema = {
    "type": "array",
    "maxItems": 100,
    "items": {
        "type": "object",
        "properties": {"dimension": NAME, "value": TEXT},
        "required": ["dimension", "value"],
        "additionalProperties": False,
    },
}
_PERIODS = {"baseline": PERIOD, "current": PERIOD}
_CERTAIN = {"sign_certain": {"type": "boolean"}}


def _takes(properties: Schema, *optional: str) -> Schema:
    return {
        "type": "object",
        "properties": {"metric": NAME, **properties, "filters": FILTERS},
        "required": ["metric", *(name for name in properties if name not in optional)],
        "additionalProperties": False,
    }


def _names(minimum: int) -> Schema:
    return {"type": "array", "items": NAME, "minItems": minimum, "maxItems": 32, "uniqueItems": True}


def _pair() -> Schema:
    return {"type": "array", "items": TEXT, "minItems": 2, "maxItems": 2, "uniqueItems": True}


VALUE_IN = _takes({"period": {"anyOf": [PERIOD, {"type": "null"}]}}, "period")
CHANGE_IN = _takes(_PERIODS)
DECOMPOSE_IN = _takes({**_PERIODS, "dimension": NAME, **_CERTAIN}, "sign_certain")
INTERACT_IN = _takes({**_PERIODS, "dimension": NAME, "others": _names(0), **_CERTAIN}, "sign_certain")
SEGMENTS_IN = _takes(
    {
        "period": {"anyOf": [PERIOD, {"type": "null"}]},
        "dimension": NAME,
        "segments": _pair(),
        "strata": _names(0),
    },
    "period",
    "strata",
)
CATALOGUE_IN: Schema = {"type": "object", "properties": {}, "additionalProperties": False}

_COUNT: Schema = {"type": "integer", "minimum": 0}
_CELL = {
    "population": _COUNT,
    "observed": _COUNT,
    "missing": _COUNT,
    "numerator": NUMBER,
    "value": NUMBER_OR_NULL,
}
_HEAD = {
    "kind": TEXT,
    "metric": NAME,
    "label": TEXT,
    "metric_kind": {"enum": ["rate", "share", "mean", "count"]},
    "better": {"enum": ["up", "down", "none"]},
    "nouns": {"type": "object"},
    "unit": TEXT,
    "change_unit": TEXT,
    "definition": {"type": "string"},
    "filters": FILTERS,
    "query": {"type": "string"},
}
_PERIOD_OUT = {"period": {"anyOf": [PERIOD, {"type": "null"}]}, "period_text": TEXT}


def _object(properties: Schema, **more: Any) -> Schema:
    return {"type": "object", "properties": properties, "required": list(properties), **more}


_SIDE = _object({**_PERIOD_OUT, **_CELL})
_DIFFERENCE = {"change": NUMBER_OR_NULL, "direction": TEXT}
_JUDGED = {
    "change_low": NUMBER_OR_NULL,
    "change_high": NUMBER_OR_NULL,
    "sign_certain": {"type": "boolean"},
    "certainty": TEXT,
    "reason": {"type": ["string", "null"]},
}
_STATUS = {"status": {"enum": ["attributed", "withheld"]}}
_SEGMENT = _object(
    {
        "segment": TEXT,
        "label": TEXT,
        "baseline": _object(_CELL),
        "current": _object(_CELL),
        "contribution": NUMBER,
        "rate_effect": NUMBER_OR_NULL,
        "mix_effect": NUMBER_OR_NULL,
        "low": NUMBER_OR_NULL,
        "high": NUMBER_OR_NULL,
    }
)

VALUE_OUT = _object({**_HEAD, **_PERIOD_OUT, **_CELL, "denominator": NUMBER_OR_NULL})
CHANGE_OUT = _object({**_HEAD, "baseline": _SIDE, "current": _SIDE, **_DIFFERENCE})
COMPLETENESS_OUT = _object(
    {
        **_HEAD,
        "baseline": _SIDE,
        "current": _SIDE,
        **_DIFFERENCE,
        **_JUDGED,
        "complete": {"type": "boolean"},
        "watermark": {"type": ["object", "null"]},
    }
)
DECOMPOSE_OUT = _object(
    {
        **_HEAD,
        "dimension": NAME,
        "baseline": _SIDE,
        "current": _SIDE,
        **_DIFFERENCE,
        **_JUDGED,
        **_STATUS,
        "segments": {"type": "array", "items": _SEGMENT},
        "rate_effect": NUMBER_OR_NULL,
        "mix_effect": NUMBER_OR_NULL,
        "not_separable": {"type": "array", "items": {"type": "array", "items": TEXT, "minItems": 2}},
        "top": {"type": ["object", "null"]},
        "spread": {"type": ["object", "null"]},
    }
)
INTERACT_OUT = _object(
    {
        **_HEAD,
        "dimension": NAME,
        "baseline": _SIDE,
        "current": _SIDE,
        **_DIFFERENCE,
        **_JUDGED,
        **_STATUS,
        "candidates": {"type": "array", "items": {"type": "object"}},
    }
)
SEGMENTS_OUT = _object(
    {
        **_HEAD,
        **_PERIOD_OUT,
        "dimension": NAME,
        "segments": {"type": "array", "items": _object({"segment": TEXT, "label": TEXT, **_CELL})},
        "ahead": {"type": ["string", "null"]},
        "difference": NUMBER_OR_NULL,
        "difference_low": NUMBER_OR_NULL,
        "difference_high": NUMBER_OR_NULL,
        "order_certain": {"type": "boolean"},
        "strata": {"type": "array", "items": {"type": "object"}},
        "reversal": {"type": ["object", "null"]},
    }
)
CATALOGUE_OUT = _object(
    {"kind": TEXT, "version": TEXT, "sources": {"type": "object"}, "dimensions": {"type": "object"}}
)
