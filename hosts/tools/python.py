"""Python functions as tools: the decorator that a package's code uses, and how its functions become descriptors.

    import duly

    @duly.tool(effect="read", concurrent=True)
    def stock(item: str, at: datetime.date) -> int:
        "How many pieces of an item are in stock."

The input schema comes from the type hints, the description from the docstring. Without ``effect`` a tool counts as a
``write``: what is not declared harmless is not.
"""

from __future__ import annotations

import importlib.abc
import importlib.util
import inspect
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_type_hints

if TYPE_CHECKING:
    from .context import CallContext, Tool

Function = TypeVar("Function", bound=Callable[..., Any])
MARK = "__duly_tool__"


@dataclass(frozen=True, slots=True)
class ToolMark:
    """What ``@tool`` notes on a function; see ``protocol/plan/descriptor`` for the meaning of each."""

    effect: Literal["read", "write", "external"]
    resource: str
    idempotency: Literal["none", "key", "natural"]
    probe: str | None
    authority: str
    timeout_seconds: int | None
    concurrent: bool
    sensitive: bool
    evidence: Literal["observation", "association", "causal"]
    output_schema: dict[str, Any] | None
    secrets: tuple[str, ...]


def tool(
    function: Function | None = None,
    *,
    effect: Literal["read", "write", "external"] = "write",
    resource: str = "",
    idempotency: Literal["none", "key", "natural"] = "none",
    probe: str | None = None,
    authority: str = "",
    timeout_seconds: int | None = None,
    concurrent: bool = False,
    sensitive: bool = False,
    evidence: Literal["observation", "association", "causal"] = "observation",
    output_schema: dict[str, Any] | None = None,
    secrets: Sequence[str] = (),
) -> Any:
    """Marks a function of a package as a tool. The function itself stays as it is.

    A parameter named ``call`` gets the call itself (``CallContext``: idempotency key, secrets, data folder, what to
    report beside the result) and is no argument.
    """
    mark = ToolMark(
        effect, resource, idempotency, probe, authority, timeout_seconds, concurrent, sensitive, evidence,
        output_schema, tuple(secrets),
    )  # fmt: skip

    def marked(target: Function) -> Function:
        setattr(target, MARK, mark)
        return target

    return marked if function is None else marked(function)


def load_module(source: bytes, path: Path, digest: str) -> ModuleType:
    """The module of a package's file, made of exactly these (checked) bytes, not of what lies at ``path`` by now.

    It has a name that nothing else has, and its folder does not join ``sys.path``: no file of a package can take the
    place of a library's module.
    """
    name = f"duly_package_{digest[:16]}_{path.stem}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_loader(name, _BytesLoader(source, path), origin=str(path))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    module.__file__ = str(path)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


class _BytesLoader(importlib.abc.InspectLoader):
    """Compiles given bytes: neither the file nor a cached compilation of it is read."""

    def __init__(self, source: bytes, path: Path) -> None:
        self._source = source
        self._path = path

    def get_source(self, fullname: str) -> str:
        return importlib.util.decode_source(self._source)

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self._source, str(self._path))


def tools_of(module: ModuleType, server: str, names: Sequence[str], timeout_seconds: int) -> list[Tool]:
    """The named functions of a module as tools. Raises ``ToolError`` ``tool.bad_function`` for one that is none."""
    return [_tool_of(module, server, name, timeout_seconds) for name in names]


def _tool_of(module: ModuleType, server: str, name: str, timeout_seconds: int) -> Tool:
    from duly.protocol.plan.descriptor import Descriptor
    from duly.protocol.wire.errors import ToolError

    from .context import Tool

    function = getattr(module, name, None)
    mark = getattr(function, MARK, None)
    if function is None or not isinstance(mark, ToolMark):
        raise ToolError(
            "tool.bad_function",
            f"There is no tool {name!r} in {module.__file__}.",
            hint="Define the function and put @duly.tool above it.",
        )
    takes, gives = _schemas(function, mark)
    return Tool(
        Descriptor(
            server=server,
            name=name,
            description=inspect.getdoc(function) or "",
            input_schema=takes,
            output_schema=gives,
            effect=mark.effect,
            resource=mark.resource,
            idempotency=mark.idempotency,
            probe=mark.probe,
            authority=mark.authority,
            timeout_seconds=mark.timeout_seconds or timeout_seconds,
            concurrent=mark.concurrent,
            sensitive=mark.sensitive,
            evidence=mark.evidence,
        ),
        _runner(function),
        secrets=mark.secrets,
    )


def _schemas(function: Callable[..., Any], mark: ToolMark) -> tuple[dict[str, Any], dict[str, Any]]:
    """Input and output schema from the type hints; an unannotated parameter or result is open."""
    from pydantic import TypeAdapter, create_model
    from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError

    from duly.protocol.wire.errors import ToolError

    try:
        hints = get_type_hints(function, include_extras=True)
        fields: dict[str, Any] = {}
        for parameter in inspect.signature(function).parameters.values():
            if parameter.name == "call":
                continue
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
                raise ToolError(
                    "tool.bad_function", f"{function.__name__}: a tool has named parameters only."
                )
            default = ... if parameter.default is parameter.empty else parameter.default
            fields[parameter.name] = (hints.get(parameter.name, Any), default)
        takes = create_model(function.__name__, __config__={"extra": "forbid"}, **fields).model_json_schema()
        gives = mark.output_schema
        if gives is None:
            gives = (
                TypeAdapter(hints["return"]).json_schema(mode="serialization") if "return" in hints else {}
            )
    except (PydanticSchemaGenerationError, PydanticUserError, NameError, TypeError) as problem:
        raise ToolError(
            "tool.bad_function",
            f"The type hints of {function.__name__} have no schema: {str(problem).splitlines()[0]}",
        ) from None
    takes.pop("title", None)
    return takes, gives


def _runner(function: Callable[..., Any]) -> Callable[[CallContext, dict[str, Any]], Any]:
    wants_call = "call" in inspect.signature(function).parameters
    waits = inspect.iscoroutinefunction(function)

    def run(call: CallContext, arguments: dict[str, Any]) -> Any:
        given = {**arguments, "call": call} if wants_call else arguments
        if not waits:
            return function(**given)
        import asyncio

        return asyncio.run(function(**given))

    return run
