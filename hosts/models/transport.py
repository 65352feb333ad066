"""The HTTP transport of every model call: one request, a bounded answer, both recorded.

It reads the whole answer itself before the client library sees a byte of it, so a server can neither fill the memory nor
hold on to a connection that nobody waits for. It follows no redirect, takes no proxy and no certificate from the
environment, and refuses a second request in one exchange: retries are the caller's, against the run's budget.
"""

from __future__ import annotations

import ssl

import httpx2

from duly.protocol.wire.errors import ModelError
from duly.protocol.wire.limits import (
    MODEL_ANSWER_BYTES_MAX,
    MODEL_CALLS_AT_ONCE_MAX,
    MODEL_CONNECT_SECONDS_MAX,
)

from .exchange import CURRENT, Exchange

_KEPT_HEADERS = ("content-type", "retry-after", "retry-after-ms")
_AWAY = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.UnsupportedProtocol, httpx2.PoolTimeout)


class RecordingTransport(httpx2.AsyncBaseTransport):
    """Connections of one host process; kept open between calls, TLS set up when it is first needed."""

    def __init__(self) -> None:
        self._by_scheme: dict[str, httpx2.AsyncHTTPTransport] = {}

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        exchange = CURRENT.get()
        if exchange.sent:
            raise exchange.fault or exchange.fail("model.lost", "The client library tried again on its own.")
        exchange.sent = True
        exchange.request = exchange.mask.bytes(await request.aread())
        request.headers["accept-encoding"] = "identity"  # a small answer must not become a large one here
        request.extensions["timeout"] = {
            "connect": MODEL_CONNECT_SECONDS_MAX,
            "pool": MODEL_CONNECT_SECONDS_MAX,
            "read": None,  # the call as a whole has a deadline
            "write": None,
        }
        try:
            response = await self._of(request.url.scheme).handle_async_request(request)
        except _AWAY as error:
            raise _unreachable(exchange, request, error) from None
        except httpx2.TransportError as error:
            raise _lost(exchange, error) from None
        try:
            return await self._recorded(exchange, request, response)
        finally:
            await response.aclose()

    async def aclose(self) -> None:
        for transport in self._by_scheme.values():
            await transport.aclose()

    async def _recorded(
        self, exchange: Exchange, request: httpx2.Request, response: httpx2.Response
    ) -> httpx2.Response:
        exchange.status = response.status_code
        exchange.headers = {
            name: response.headers[name] for name in _KEPT_HEADERS if name in response.headers
        }
        if response.headers.get("content-encoding", "identity").lower() not in ("", "identity"):
            raise exchange.fail(
                "model.not_a_model_server", "The server compresses its answer, although it was asked not to."
            )
        promised = response.headers.get("content-length", "0")
        if promised.isdigit() and int(promised) > MODEL_ANSWER_BYTES_MAX:
            raise _too_large(exchange)
        data = bytearray()
        try:
            assert isinstance(response.stream, httpx2.AsyncByteStream)
            async for part in response.stream:
                data += part
                if len(data) > MODEL_ANSWER_BYTES_MAX:
                    raise _too_large(exchange)
        except httpx2.TransportError as error:
            raise _lost(exchange, error) from None
        finally:
            exchange.response = exchange.mask.bytes(bytes(data[:MODEL_ANSWER_BYTES_MAX]))
        headers = {name: value for name, value in exchange.headers.items() if name == "content-type"}
        return httpx2.Response(exchange.status, headers=headers, content=exchange.response, request=request)

    def _of(self, scheme: str) -> httpx2.AsyncHTTPTransport:
        if scheme not in self._by_scheme:
            limits = httpx2.Limits(
                max_connections=2 * MODEL_CALLS_AT_ONCE_MAX, max_keepalive_connections=MODEL_CALLS_AT_ONCE_MAX
            )
            # A context without certificates trusts nobody: enough for plain HTTP, which shows it to no one.
            context = (
                ssl.create_default_context() if scheme == "https" else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            )
            self._by_scheme[scheme] = httpx2.AsyncHTTPTransport(
                verify=context, trust_env=False, retries=0, limits=limits
            )
        return self._by_scheme[scheme]


def client(transport: RecordingTransport) -> httpx2.AsyncClient:
    """The HTTP client that client libraries are given."""
    return httpx2.AsyncClient(transport=transport, trust_env=False, follow_redirects=False, timeout=None)


def _unreachable(exchange: Exchange, request: httpx2.Request, error: Exception) -> ModelError:
    where = f"{request.url.scheme}://{request.url.netloc.decode('ascii', 'replace')}"
    why = exchange.mask.text(str(error))[:200] or type(error).__name__
    return exchange.fail(
        "model.unreachable",
        f"No model server answers at {where} ({why}).",
        hint="Start it, or correct base_url.",
    )


def _lost(exchange: Exchange, error: Exception) -> ModelError:
    return exchange.fail(
        "model.lost",
        f"The connection to the model server broke before its answer ended ({type(error).__name__}).",
    )


def _too_large(exchange: Exchange) -> ModelError:
    return exchange.fail(
        "model.answer_too_large",
        f"The server's answer exceeds {MODEL_ANSWER_BYTES_MAX} bytes; it was cut off.",
    )
