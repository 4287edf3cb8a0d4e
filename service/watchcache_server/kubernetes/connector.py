"""Connections that the event loop makes by itself, address by address.

aiohttp connects a socket of its own and hands it to the loop. On uvloop 0.23 that ends the whole
process, by an assertion of libuv, when the peer resets the connection at that very moment: the
descriptor is closed twice, the second time maybe under a connection that has it by then, which is
dead in silence from there on. A connection that uvloop makes itself has one owner.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Sequence
from typing import Any

import aiohttp

__all__ = ["Connector"]


class Connector(aiohttp.TCPConnector):
    """Makes connections; raises what aiohttp's own connector raises."""

    async def _wrap_create_connection(
        self,
        *args: Any,
        addr_infos: Sequence[tuple[Any, ...]],
        req: aiohttp.ClientRequest,
        timeout: aiohttp.ClientTimeout,
        client_error: type[Exception] = aiohttp.ClientConnectorError,
        **kwargs: Any,
    ) -> tuple[asyncio.Transport, Any]:
        loop: Any = self._loop
        last: OSError | None = None
        # The caller goes on with what is left when the first of each family were in vain.
        for info in {each[0]: each for each in reversed(addr_infos)}.values():
            host, port = info[4][:2]
            try:
                async with asyncio.timeout(timeout.sock_connect):
                    made = await loop.create_connection(*args, host=host, port=port, **kwargs)
                return made[0], made[1]
            except ssl.CertificateError as error:
                raise aiohttp.ClientConnectorCertificateError(req.connection_key, error) from error
            except ssl.SSLError as error:
                raise aiohttp.ClientConnectorSSLError(req.connection_key, error) from error
            except TimeoutError:
                raise
            except OSError as error:
                last = error
        assert last is not None, "a name is resolved to one address at least"
        raise client_error(req.connection_key, last) from last
