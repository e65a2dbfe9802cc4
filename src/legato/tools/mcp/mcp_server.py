"""An MCP server whose tools agents use.

Only accepted tools are offered and run: they are listed once, pinned (see `pinned_tools.py`), and compared again after every connection and
from time to time. By default, a tool needs no approval if the server's hint says that it only reads.
"""

from __future__ import annotations

import asyncio
import re
import time
import warnings
from collections import Counter, deque
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn, TypeAlias
from weakref import WeakKeyDictionary

from mcp import MCPError
from mcp.types import PARSE_ERROR
from mcp.types import Tool as MCPTool
from pydantic import ValidationError

from legato.core.argument_checks import require_text
from legato.errors import BadInput, LegatoError, MCPFailed
from legato.tools.function_tools import NeedsApproval, Tool, check_tool_name
from legato.tools.json_schema_arguments import JSONSchemaArguments
from legato.tools.mcp.call_results import convert_result, join_error_texts
from legato.tools.mcp.pinned_tools import (
    ServerTool,
    ToolChange,
    compare_tools,
    make_tools_changed_error,
    read_pins,
    require_tools,
    write_pins,
)
from legato.tools.mcp.server_connection import (
    MAX_STDERR_LINES,
    NOT_SENT,
    HTTPTransport,
    ServerConnection,
    StdioTransport,
    Transport,
    is_certainly_not_run,
    is_outcome_unknown,
    is_unknown_session,
    make_unreachable_error,
    mask_secrets,
)
from legato.tools.tool_context import OutcomeUnknown

MAX_TOOLS = 1_000
"""Tools of one server. Providers accept 128 to 512 in a request, and models choose badly even among fewer."""

MAX_PAGES = 100
"""Pages of one list of tools: a server with endless pages must not block a program."""

_MAX_UNWANTED_NAMES = 30
"""Names of tools outside `only` that an error lists."""

RETRY_PAUSES_S = (0.0, 0.3, 1.0, 2.0)
"""Seconds before each attempt to reach a server for a call: a server may be restarting."""

Approval: TypeAlias = NeedsApproval | Collection[str] | None


class MCPToolError(LegatoError):
    """A tool of an MCP server failed, or could not be run. The message is for the model."""

    code = "mcp_tool"


class SchemaNotEnforced(UserWarning):
    """A part of the schema of an MCP server's tool is not enforced by Legato. The server may validate it itself."""


class _LoopConnection:
    """The connection of one event loop."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.connection: ServerConnection | None = None


class MCPServer:
    """A server of the Model Context Protocol whose tools agents can use.

    `command` starts it as a process and uses its standard input and output; `url` reaches it over streamable HTTP.

        time = MCPServer("time", command=["mcp-server-time"], pins="time.pins.json")
        clerk = Agent("clerk", model=..., tools=await time.tools())

    - `prefix`: put before the name of each tool. `only`: the tools to use; default: all.
    - `needs_approval`: None: a call needs approval unless the server says that the tool only reads (`readOnlyHint`). Or `True`, `False`, a
      list of the server's names of tools that need approval, or a function of (context, arguments, call).
    - `trust_idempotent_hints`: trust `idempotentHint` and `readOnlyHint`: such a call is started again if its outcome is unknown.
    - `timeout`: seconds for a call, as for any tool. `connect_timeout`: seconds to connect and to list the tools.
    - `pins`: a file that keeps the accepted tools for the next process.
    - `recheck`: seconds after which the tools are compared again before a call.
    - `env` (added to a small safe environment) and `headers` may contain credentials: they never appear in errors.
    """

    def __init__(
        self,
        name: str,
        *,
        command: Sequence[str] | None = None,
        url: str | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | Path | None = None,
        headers: Mapping[str, str] | None = None,
        prefix: str = "",
        only: Collection[str] | None = None,
        needs_approval: Approval = None,
        trust_idempotent_hints: bool = False,
        timeout: float | None = 120.0,
        connect_timeout: float = 30.0,
        pins: str | Path | None = None,
        recheck: float = 60.0,
    ) -> None:
        self.name = require_text("the name of an MCP server", name)
        self.prefix = require_text("the prefix of an MCP server's tools", prefix)
        self._transport = _make_transport(name, command, url, env, cwd, headers)
        self._only = _check_names("only", only)
        self._approval: NeedsApproval | frozenset[str] | None = (
            needs_approval
            if needs_approval is None or isinstance(needs_approval, bool) or callable(needs_approval)
            else frozenset(_check_names("needs_approval", needs_approval) or ())
        )
        self._trusts_idempotent_hints = trust_idempotent_hints
        self._timeout = timeout
        self._connect_timeout = connect_timeout
        self._pins_path = Path(pins) if pins is not None else None
        self._recheck = recheck
        self._pinned_tools: dict[str, ServerTool] | None = None
        self._current_tools: dict[str, ServerTool] = {}
        self._unwanted_names: list[str] = []
        self._loop_connections: WeakKeyDictionary[asyncio.AbstractEventLoop, _LoopConnection] = WeakKeyDictionary()

    def __repr__(self) -> str:
        return f"<MCPServer {self.name}: {self._transport.display_name}>"

    async def __aenter__(self) -> MCPServer:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()

    # -- tools for agents ------------------------------------------------------------------------------------------------

    async def tools(self, accept: bool = False) -> list[Tool]:
        """Return the server's tools, for `Agent(tools=...)`. They are listed once; the first list is accepted.

        Raise `ToolsChanged` if they differ from the tools that were accepted before, by this object or in the file of pins. `accept=True`
        accepts the current tools, and replaces the file.
        """
        if accept or self._pinned_tools is None:
            pinned = None if accept else read_pins(self._pins_path, self.name) if self._pins_path else None
            await self._connect(must_recheck=True)
            current = self._current_tools
            require_tools(self.name, current, self._only, self._unwanted_names)
            if pinned is not None and (differences := compare_tools(pinned, current)):
                raise make_tools_changed_error(self.name, differences, self._pins_path)
            tools = await self._make_tools(current)
            if pinned is None and self._pins_path is not None:
                write_pins(self._pins_path, self.name, current)
            self._pinned_tools = current
            self._warn_of_unenforced(tools)
            return tools
        return await self._make_tools(self._pinned_tools)

    def tools_sync(self, accept: bool = False) -> list[Tool]:
        """Return the server's tools where no event loop runs, for workflows that are built when a module is imported."""

        async def read_tools() -> list[Tool]:
            try:
                return await self.tools(accept)
            finally:
                await self.aclose()

        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(read_tools())
        raise BadInput("tools_sync cannot be used where an event loop runs", do="write `await server.tools()`")

    @property
    def changes(self) -> list[ToolChange]:
        """The differences from the accepted tools at the last comparison."""
        if self._pinned_tools is None:
            return []
        return compare_tools(self._pinned_tools, self._current_tools)

    async def aclose(self) -> None:
        """Close this event loop's connection. The next call opens another."""
        loop_connection = self._loop_connections.pop(asyncio.get_running_loop(), None)
        if loop_connection is not None and loop_connection.connection is not None:
            await loop_connection.connection.close()

    async def _make_tools(self, server_tools: Mapping[str, ServerTool]) -> list[Tool]:
        """Return the tools for agents. A hostile schema takes up to 0.5 s, so other tasks run after each, and there is a timeout."""
        if isinstance(self._approval, frozenset) and (missing := sorted(self._approval - server_tools.keys())):
            raise BadInput(
                f"needs_approval of MCP server {self.name!r} names an unknown tool",
                expected=", ".join(server_tools),
                found=missing[0],
                do="use the server's own names, without the prefix",
            )
        tools = []
        try:
            async with asyncio.timeout(self._connect_timeout):
                for server_tool in server_tools.values():
                    tools.append(self._make_tool(server_tool))
                    await asyncio.sleep(0)
        except TimeoutError:
            problem = f"the schemas of MCP server {self.name!r} could not be read in {self._connect_timeout:g} s"
            raise MCPFailed(problem, found=f"{len(server_tools):,} tools", do="name those that you need with only=[...]") from None
        name, count = Counter(each.name for each in tools).most_common(1)[0] if tools else ("", 0)
        if count > 1:
            raise BadInput(f"two tools of MCP server {self.name!r} would be called {name!r}", do="choose with only=[...]")
        return tools

    def _warn_of_unenforced(self, tools: list[Tool]) -> None:
        """Warn about all parts of the tools' schemas that are not enforced."""
        lines = [
            f"  - {each.name}: {', '.join(parts)[:300]}"
            for each in tools
            if isinstance(each.arguments, JSONSchemaArguments) and (parts := each.arguments.validator.unenforced)
        ]
        if lines:
            title = f"parts of the schemas of MCP server {self.name!r} are not enforced before its tools are called"
            title += " (the server may check them itself):"
            warnings.warn(SchemaNotEnforced("\n".join([title, *lines])), stacklevel=3)

    def _make_tool(self, server_tool: ServerTool) -> Tool:
        try:
            name = check_tool_name(re.sub(r"[^a-zA-Z0-9_-]", "_", f"{self.prefix}{server_tool.name}"))
        except BadInput as error:
            problem = f"tool {server_tool.name[:80]!r} of MCP server {self.name!r}: {error.summary}"
            raise BadInput(problem, expected=error.expected, do="choose another prefix=, or leave it out with only=[...]") from None

        async def call(**arguments: Any) -> object:
            return await self._call(server_tool, arguments)

        return Tool(
            name=name,
            description=server_tool.description,
            function=call,
            arguments=JSONSchemaArguments.from_schema(name, server_tool.schema),
            needs_approval=self._needs_approval(server_tool),
            idempotent=self._trusts_idempotent_hints and bool(server_tool.idempotent or server_tool.read_only),
            timeout=self._timeout,
        )

    def _needs_approval(self, server_tool: ServerTool) -> NeedsApproval:
        if self._approval is None:
            return not server_tool.read_only
        return server_tool.name in self._approval if isinstance(self._approval, frozenset) else self._approval

    # -- calls -------------------------------------------------------------------------------------------------------------

    async def _call(self, server_tool: ServerTool, arguments: dict[str, Any]) -> object:
        """Call a tool; repeat the call only while it has certainly not run."""
        last_error: LegatoError | None = None
        for pause in RETRY_PAUSES_S:
            await asyncio.sleep(pause)
            try:
                connection = await self._connect()
            except MCPFailed as error:
                last_error = error
                continue
            self._refuse_if_changed(server_tool)
            try:
                return await self._call_once(connection, server_tool, arguments)
            except MCPError as error:
                last_error = self._make_error(server_tool, error)
                if is_unknown_session(error):
                    await connection.close()
                elif error.code != NOT_SENT:
                    break
        assert last_error is not None
        raise last_error from None

    async def _call_once(self, connection: ServerConnection, server_tool: ServerTool, arguments: dict[str, Any]) -> object:
        try:
            result = await connection.client.call_tool(server_tool.name, arguments)
        except MCPError as error:
            if is_outcome_unknown(error, connection):
                raise OutcomeUnknown(
                    mask_secrets(self._transport, f"the connection to MCP server {self.name!r} broke: {error.message}")
                ) from None
            raise
        except (ValidationError, RuntimeError) as error:
            problem = f"MCP server {self.name!r} answered something that cannot be read ({type(error).__name__}). It may have taken effect."
            raise MCPToolError(problem) from None
        if result.is_error:
            raise MCPToolError(mask_secrets(self._transport, join_error_texts(result)))
        return convert_result(result)

    def _make_error(self, server_tool: ServerTool, error: MCPError) -> MCPToolError:
        if error.code == PARSE_ERROR:
            problem = f"MCP server {self.name!r} answered something that cannot be read: {error.message}. It may have taken effect."
            return MCPToolError(mask_secrets(self._transport, problem))
        status = "was not run" if is_certainly_not_run(error) else "failed"
        return MCPToolError(mask_secrets(self._transport, f"{server_tool.name!r} of MCP server {self.name!r} {status}: {error.message}"))

    def _refuse_if_changed(self, server_tool: ServerTool) -> None:
        """Refuse a tool that differs from the accepted one."""
        current = self._current_tools.get(server_tool.name)
        if current is None or current.fingerprint != server_tool.fingerprint:
            raise MCPToolError(
                f"{server_tool.name!r} was not run: its server {self.name!r} has changed it since it was accepted",
                found="it is gone" if current is None else "it is another one now",
                do="tell the people who run this program: they can look at the change, and accept it",
            )

    async def _connect(self, must_recheck: bool = False) -> ServerConnection:
        """Return a connection whose tools were compared recently. If it breaks during the comparison, open another: nothing ran on it."""
        loop_connection = self._loop_connections.setdefault(asyncio.get_running_loop(), _LoopConnection())
        async with loop_connection.lock:
            for last in (False, True):
                try:
                    if loop_connection.connection is None or loop_connection.connection.has_ended:
                        loop_connection.connection = await ServerConnection(self._transport).open(self._connect_timeout)
                except Exception as error:  # a missing program, a refused port, a broken protocol
                    raise make_unreachable_error(self.name, self._transport, error) from None
                connection = loop_connection.connection
                if not must_recheck and time.monotonic() - connection.tools_checked_at < self._recheck:
                    return connection
                try:
                    await self._refresh_tools(connection)
                    return connection
                except (MCPError, TimeoutError, ValidationError) as error:
                    if isinstance(error, MCPError) and is_unknown_session(error):
                        await connection.close()
                    if last or not connection.has_ended:
                        raise make_unreachable_error(self.name, self._transport, error) from None
        raise AssertionError("two attempts end somehow")

    async def _refresh_tools(self, connection: ServerConnection) -> None:
        """List the server's current tools, only for the comparison with the accepted ones."""
        current_tools: dict[str, ServerTool] = {}
        unwanted_names: list[str] = []
        cursor = None
        async with asyncio.timeout(self._connect_timeout):
            for _ in range(MAX_PAGES):
                page = await connection.client.list_tools(cursor=cursor)
                for each in page.tools:
                    if self._only is not None and each.name not in self._only:
                        unwanted_names += [each.name] if len(unwanted_names) < _MAX_UNWANTED_NAMES else []
                        continue
                    current_tools[each.name] = _convert_tool(each)
                    if len(current_tools) > MAX_TOOLS:
                        self._refuse_list(f"at most {MAX_TOOLS:,} tools", "more")
                if (cursor := page.next_cursor) is None:
                    break
            else:
                self._refuse_list(f"at most {MAX_PAGES} pages of tools", "more")
        connection.tools_checked_at, self._current_tools, self._unwanted_names = time.monotonic(), current_tools, unwanted_names

    def _refuse_list(self, expected: str, actual: str) -> NoReturn:
        do = "name those that you need with only=[...]"
        raise MCPFailed(f"the list of tools of MCP server {self.name!r} is too long", expected=expected, found=actual, do=do)


def _convert_tool(tool: MCPTool) -> ServerTool:
    hints = tool.annotations
    return ServerTool(
        name=tool.name,
        description=tool.description or tool.title or "",
        schema=tool.input_schema,
        read_only=hints.read_only_hint if hints else None,
        destructive=hints.destructive_hint if hints else None,
        idempotent=hints.idempotent_hint if hints else None,
    )


def _make_transport(
    name: str,
    command: Sequence[str] | None,
    url: str | None,
    env: Mapping[str, str] | None,
    cwd: str | Path | None,
    headers: Mapping[str, str] | None,
) -> Transport:
    if (command is None) == (url is None):
        raise BadInput(
            f"MCP server {name!r} needs a command or a url, and not both", do='write command=["mcp-server-time"], or url="https://..."'
        )
    if command is None:
        address = _check_url(name, url)
        if env is not None or cwd is not None:
            raise BadInput(f"MCP server {name!r} has a url: env= and cwd= are for commands", do="give credentials with headers=")
        return HTTPTransport(url=address, headers=dict(headers or {}))
    arguments = _check_command(name, command)
    if headers is not None:
        raise BadInput(f"MCP server {name!r} has a command: headers= are for urls", do="give credentials with env=")
    return StdioTransport(
        command=arguments, env=dict(env or {}), cwd=Path(cwd) if cwd is not None else None, stderr_lines=deque(maxlen=MAX_STDERR_LINES)
    )


def _check_url(name: str, url: object) -> str:
    if not isinstance(url, str) or not url.startswith(("http://", "https://")):
        raise BadInput(f"the url of MCP server {name!r} is not one", expected="http:// or https://")
    return url


def _check_command(name: str, command: Sequence[str]) -> tuple[str, ...]:
    if isinstance(command, str) or not command or not all(isinstance(each, str) for each in command):
        raise BadInput(f"the command of MCP server {name!r} is a list of texts", do='write command=["uvx", "mcp-server-time"]')
    return tuple(command)


def _check_names(option: str, names: Any) -> frozenset[str] | None:
    if names is None:
        return None
    if isinstance(names, str) or not isinstance(names, Collection) or not all(isinstance(each, str) for each in names):
        raise BadInput(f"{option}= takes a list of the server's names for its tools", found=repr(names)[:80])
    return frozenset(names)
