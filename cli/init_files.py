"""The files of the package that ``duly init`` makes: a shop whose orders lie in a CSV beside them."""

from __future__ import annotations

import calendar
from json import dumps as quoted  # a JSON string is a TOML basic string as well

MONTHS = ((2024, 4), (2024, 5))
COUNTRIES = ("AT", "CH", "DE", "FR")
CATEGORIES = ("books", "shoes", "lamps")
EXAMPLES = (
    "Why did returns rise in May 2024?",
    "Remind me of the country whose returns rose most in May 2024.",
    "How many orders were there in May 2024?",
)

MANIFEST = """\
# @NAME@: a small agent package that runs. Change it piece by piece; `duly doctor .` says what is wrong.

[package]
name = "@NAME@"
version = "1"
description = "Orders of a shop, and reminders about them"
data = "@NAME@"                     # the package's own folder under $DULY_HOME: reminders are kept there

[[agents.list]]
name = "clerk"
version = "1"
mission = "Answers questions about the shop's orders and keeps reminders."
tools = [
    "metrics.value",
    "metrics.completeness",
    "metrics.decompose",
    "report.value",
    "report.diagnosis",
    "desk.remind",
    "desk.reminders",
]

[tools.metrics]
kind = "metrics"                  # numbers with the meaning that semantics.yaml gives them

[tools.report]
kind = "report"                   # statements from what was read

[tools.desk]
kind = "python"                   # functions of tools.py, marked @duly.tool
functions = ["remind", "reminders"]

[sources.orders]
kind = "duckdb"
file = @ORDERS@
nulls = [""]
"""

SEMANTICS = """\
# What the numbers mean. Everything is computed, and checked, from this file; no SQL stands here.
version: "1"

sources:
  orders:
    label: Orders
    time: {kind: columns, year: year, month: month, day: day}

dimensions:
  country: {label: country, plural: countries, source: orders, column: country, unknown: unknown}
  category: {label: category, plural: categories, source: orders, column: category, unknown: unknown}

metrics:
  return_rate:
    label: return rate
    definition: Returned orders, divided by delivered orders
    synonyms: [returns, share of returns]
    kind: rate
    source: orders
    numerator: [{column: returned, op: "=", value: 1}]
    denominator: [{column: returned, op: not_null}]
    unit: percent
    direction: down
    nouns: {population: orders, observed: delivered orders, numerator: returned orders}
    dimensions: [country, category]
    completeness: {observed_share_min: 0.8}
    checks:
      - {kind: recompute, tolerance: 1.0e-9}
      - {kind: range, min: 0, max: 100}
      - {kind: sums_to, tolerance: 1.0e-9}
  order_count:
    label: number of orders
    definition: Orders
    synonyms: [orders, order count]
    kind: count
    source: orders
    numerator: [{column: order_id, op: not_null}]
    unit: orders
    direction: up
    dimensions: [country, category]
    checks:
      - {kind: recompute, tolerance: 0}
      - {kind: range, min: 0}
"""

WHY = """\
# Two months of one metric: is the change certain, what does it go with, what may be said of it.
name: why
title: find what a change of a metric between two months goes with
task_class: open
allow_partial: true

match:
  least: 4
  cues:
    - {words: [why, cause, reason, explain, what happened], weight: 4}
    - {words: [rose, rise, fell, fall, changed, change, compared], weight: 2}
  found: {period_pair: 2, metric: 1}

parameters:
  metric: {kind: metric, default: return_rate}
  periods: {kind: period_pair, single: month_before}
  dimensions: {kind: dimensions}
  filters: {kind: filters}

defaults:
  verification: {tolerance: 1.0e-9}
  on_failure: [{do: retry, attempts: 2}, escalate]

steps:
  - id: completeness
    tool: metrics.completeness
    objective: [Is enough known to be sure that, {$param: metric}, "changed?"]
    arguments:
      metric: {$param: metric}
      baseline: {$param: baseline}
      current: {$param: current}
      filters: {$param: filters}
    verification:
      acceptance: [{rule: not_null, path: /sign_certain}]
      independent: {recompute: completeness}

  - id: decompose                  # one step for each dimension; they run side by side
    foreach: dimensions
    tool: metrics.decompose
    objective: [How much of the change does each, {$param: item}, "account for?"]
    arguments:
      metric: {$param: metric}
      baseline: {$param: baseline}
      current: {$param: current}
      dimension: {$param: item}
      filters: {$param: filters}
      sign_certain: {$ref: "completeness#/sign_certain"}
    verification:
      acceptance: [{rule: not_null, path: /status}]
      independent: {recompute: decomposition}

  - id: report
    tool: report.diagnosis
    objective: What may be said of the change?
    arguments:
      evidence: {$evidence: [completeness, decompose]}
      recommendations: {$param: recommendations}
      follow_ups: {$param: follow_ups}
    verification:
      acceptance: [{rule: count, path: /statements, min: 3}]
      tolerance: {none: a report holds no number of its own}
      independent: {none: "every value in it is a reference, and the steps it refers to are computed again"}

report: report

recommendations:
  - {when: concentrated, text: "Take up {top_label} first; the other {plural} moved far less."}
  - {when: mixed, text: "Take up the {plural} {leading} first."}
  - {when: broad, text: "Look for what changed for every {dimension} at once in {current}."}
"""

REMIND = """\
# A read finds the segment, a write keeps a reminder (a person approves it first), another tool reads it back.
name: remind
title: keep a reminder about the segment that contributed most to a change
task_class: deterministic

match:
  least: 10
  cues:
    - {words: [remind me, remind, reminder], weight: 10}

parameters:
  metric: {kind: metric, default: return_rate}
  periods: {kind: period_pair, single: month_before}
  dimension: {kind: dimension, default: country}
  filters: {kind: filters}

steps:
  - id: decompose
    tool: metrics.decompose
    objective: [Which, {$param: dimension}, "contributed most to the change of", {$param: metric}, "?"]
    arguments:
      metric: {$param: metric}
      baseline: {$param: baseline}
      current: {$param: current}
      dimension: {$param: dimension}
      filters: {$param: filters}
    verification:
      acceptance: [{rule: equals, path: /status, value: attributed}]
      tolerance: 1.0e-9
      independent: {recompute: decomposition}
    on_failure: [{do: retry, attempts: 2}, escalate]

  - id: remind
    tool: desk.remind
    objective: [Is there a reminder about the, {$param: dimension}, "that contributed most?"]
    arguments:
      subject: {$ref: "decompose#/top/segment"}
      about: {$ref: "decompose#/current/period_text"}
    verification:
      acceptance: [{rule: not_null, path: /key}]
      tolerance: {none: a reminder is the same or it is not}
      independent:
        read_back: desk.reminders
        arguments: {key: {$ref: "remind#/key"}}
        agree: {/subject: /subject, /about: /about}
    on_failure: [escalate]
"""

TOOLS = '''\
"""The package's own tools. A host calls them; without a declared effect a tool counts as one that writes."""

import hashlib
import json
from typing import Any

import duly


@duly.tool(effect="write", resource="file:reminders", idempotency="natural")
def remind(subject: str, about: str, call: Any) -> dict[str, str]:
    """Keeps a reminder. The same one twice is one."""
    reminder = {"subject": subject, "about": about}
    key = hashlib.sha256(json.dumps(reminder, sort_keys=True).encode()).hexdigest()[:16]
    folder = call.data / "reminders"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{key}.json").write_text(json.dumps(reminder), encoding="utf-8")
    return {"key": key, **reminder}


@duly.tool(effect="read")
def reminders(key: str, call: Any) -> dict[str, str]:
    """The reminder of a key, empty where there is none."""
    path = call.data / "reminders" / f"{key}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
'''

README = """\
# @NAME@

    duly run @HERE@ "@FIRST@"
    duly run @HERE@ "@SECOND@"
    duly run @HERE@ "@THIRD@"

`orders.csv` holds the data, `semantics.yaml` says what its numbers mean, `playbooks/` which requests make which plan,
`tools.py` what the package can do itself, `agent.toml` what the agent may use. The second request writes, so a person
approves it. `duly doctor @HERE@` checks all of it. Where the folder moves, correct `file` under [sources.orders].
"""


def package_files(name: str, orders: str, here: str) -> dict[str, str]:
    """File name → text. ``orders`` is the path of the CSV, ``here`` how a person names the folder in a shell."""
    first, second, third = EXAMPLES
    known = {"@NAME@": name, "@ORDERS@": quoted(orders), "@HERE@": here}
    known |= {"@FIRST@": first, "@SECOND@": second, "@THIRD@": third}
    texts = {
        "agent.toml": MANIFEST,
        "semantics.yaml": SEMANTICS,
        "playbooks/why.yaml": WHY,
        "playbooks/remind.yaml": REMIND,
        "tools.py": TOOLS,
        "README.md": README,
    }
    found = {file: _filled(text, known) for file, text in texts.items()}
    return {**found, "orders.csv": orders_csv()}


def _filled(text: str, known: dict[str, str]) -> str:
    for mark, value in known.items():
        text = text.replace(mark, value)
    return text


def orders_csv() -> str:
    """Six orders a day over two months. In the second one far more comes back from Germany, and a few outcomes are not
    known yet."""
    lines = ["order_id,year,month,day,country,category,returned"]
    for year, month in MONTHS:
        for day in range(1, calendar.monthrange(year, month)[1] + 1):
            for _ in range(6):
                number = len(lines)
                country, category = COUNTRIES[(number + day) % 4], CATEGORIES[number % 3]
                often = 2 if country == "DE" and month == MONTHS[1][1] else 9
                returned = "" if number % 61 == 0 else "1" if number % often == 1 else "0"
                lines.append(f"{number},{year},{month},{day},{country},{category},{returned}")
    return "\n".join(lines) + "\n"
