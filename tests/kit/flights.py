"""The example package and what a host would say of its data and tools, without the data."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from duly.actors.planner.bind import bind
from duly.hosts.tools import metrics, report, sqlite
from duly.protocol.plan.catalogue import (
    Catalogue,
    Column,
    DimensionCatalogue,
    DimensionValue,
    MonthCoverage,
    SourceCatalogue,
)
from duly.protocol.plan.descriptor import Descriptor
from duly.protocol.plan.manifest import SqliteTools
from duly.protocol.plan.package import Package, load_package
from duly.protocol.plan.request import Binding, new_request
from duly.protocol.plan.route import choose

FOLDER = Path(__file__).resolve().parent.parent.parent / "examples" / "flights"
CARRIERS = {
    "UA": "United Air Lines Inc.", "B6": "JetBlue Airways", "EV": "ExpressJet Airlines Inc.",
    "DL": "Delta Air Lines Inc.", "AA": "American Airlines Inc.", "MQ": "Envoy Air", "US": "US Airways Inc.",
    "9E": "Endeavor Air Inc.", "WN": "Southwest Airlines Co.", "VX": "Virgin America",
    "FL": "AirTran Airways Corporation", "AS": "Alaska Airlines Inc.", "F9": "Frontier Airlines Inc.",
    "YV": "Mesa Airlines Inc.", "HA": "Hawaiian Airlines Inc.", "OO": "SkyWest Airlines Inc.",
}  # fmt: skip
ORIGINS = {"EWR": "Newark", "JFK": "John F. Kennedy", "LGA": "LaGuardia"}
DESTINATIONS = (
    "ORD ATL LAX BOS MCO CLT SFO FLL MIA DCA DTW DFW RDU TPA DEN IAH MSP LAS SEA SAN DAY PIT OAK MEM SAT IND HOU LGA"
).split()
MAKERS = (
    *(
        "BOEING",
        "EMBRAER",
        "unknown",
        "AIRBUS",
        "AIRBUS INDUSTRIE",
        "MCDONNELL DOUGLAS",
        "BELL",
        "PAIR MIKE E",
    ),
    *("CESSNA", "PIPER", "BEECH", "CANADAIR", "SIKORSKY", "DOUGLAS"),
)


@cache
def package_files() -> dict[str, bytes]:
    return {
        path.relative_to(FOLDER).as_posix(): path.read_bytes()
        for path in sorted(FOLDER.rglob("*"))
        if path.is_file() and path.suffix in (".toml", ".yaml", ".py")
    }


@cache
def package() -> Package:
    return load_package(package_files(), "examples/flights")


def months(*years: int | None) -> list[MonthCoverage]:
    return [MonthCoverage(year=year, month=month, rows=1_000) for year in years for month in range(1, 13)]


@cache
def catalogue(*years: int | None) -> Catalogue:
    """What the survey finds, with these years (2013 without any)."""

    def dimension(name: str, values: dict[str, str | None]) -> DimensionCatalogue:
        found = [DimensionValue(value=value, label=label, rows=10) for value, label in values.items()]
        return DimensionCatalogue(name=name, values=found)

    flights = SourceCatalogue(
        name="flights",
        fingerprint="f" * 64,
        rows=336_776,
        columns=[Column(name="month", type="BIGINT")],
        coverage=months(*(years or (2013,))),
    )
    return Catalogue(
        sources={"flights": flights},
        dimensions={
            "origin": dimension("origin", dict(ORIGINS)),
            "carrier": dimension("carrier", dict(CARRIERS)),
            "day_part": dimension("day_part", {"morning": None, "afternoon": None, "evening": None}),
            "destination": dimension("destination", {name: None for name in DESTINATIONS}),
            "maker": dimension("maker", {name: None for name in MAKERS}),
        },
    )


@cache
def descriptors() -> dict[str, Descriptor]:
    """What the hosts say of the package's tools."""
    incidents = package().manifest.tools["incidents"]
    assert isinstance(incidents, SqliteTools)
    tools = [*metrics.tools("metrics"), *report.tools("report"), *sqlite.tools("incidents", incidents)]
    return {tool.descriptor.full_name: tool.descriptor for tool in tools}


RATE = "on_time_arrival_rate"


def bound(text: str, answers: dict[str, str] | None = None, *years: int) -> Binding:
    """The binding of a request to the example package."""
    return bind(new_request(text), package(), catalogue(*years), package().agent(), answers)


def route_of(text: str) -> str:
    """Where the request goes without a model."""
    return choose(new_request(text), bound(text), package().agent(), has_model=False).route


def month(number: int, year: int | None = 2013) -> dict[str, int | None]:
    return {"year": year, "month": number}


def filters(**named: str) -> list[dict[str, str]]:
    return [{"dimension": name, "value": value} for name, value in named.items()]
