"""An MCP server whose tools agents use. May know: connections and tools. Decides: which tools are offered, asked for, repeated.

Nothing a server says is run or offered unless it was accepted: its tools are listed once, pinned (see `listing.py`), and compared again
after every connection and now and then. Of its hints, the one that a tool only reads decides, unless told otherwise, that nobody is asked.
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
from mcp.types import Tool as ServersTool
from pydantic import ValidationError

from legato.core.argument_checks import text
from legato.errors import BadInput, LegatoError, MCPFailed
from legato.tools.context import OutcomeUnknown
from legato.tools.function import NeedsApproval, Tool, checked_name
from legato.tools.mcp.connection import (
    LINES,
    NOT_SENT,
    Address,
    Command,
    Connection,
    Way,
    began_anew,
    hide,
    never_ran,
    nobody_knows,
    unreachable,
)
from legato.tools.mcp.listing import Change, Listed, changes, read_pins, refused, require_tools, write_pins
from legato.tools.mcp.results import output_of, words_of
from legato.tools.schema_arguments import SchemaArguments

MAX_TOOLS = 1_000
"""Tools of one server that can be used. Providers take 128 to 512 in a request, and models choose badly among fewer."""

MAX_PAGES = 100
"""Pages of one list: a server that always has one more must not hold up a program."""

_MAX_NAMES = 30
"""Names of tools that are not wanted, kept for an error."""

PATIENCE = (0.0, 0.3, 1.0, 2.0)
"""Seconds before each attempt to reach a server for a call: one that is being restarted needs a moment."""

Approval: TypeAlias = NeedsApproval | Collection[str] | None


class MCPToolError(LegatoError):
    """A tool of an MCP server failed, or could not be run. The words are for the model."""

    code = "mcp_tool"


class SchemaNotEnforced(UserWarning):
    """Part of the schema of an MCP server's tool is not enforced here. The server checks it itself, or nobody does."""


class _Place:
    """The connection of one event loop."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.connection: Connection | None = None


class MCPServer:
    """A server of the Model Context Protocol, and the tools that it gives to agents.

    `command` starts it as a process and talks over its standard input and output; `url` talks over streamable HTTP.

        time = MCPServer("time", command=["mcp-server-time"], pins="time.pins.json")
        clerk = Agent("clerk", model=..., tools=await time.tools())

    - `prefix`: put before the name of each tool; `only`: the tools that are wanted, all by default.
    - `needs_approval`: None: people are asked unless the server says that the tool only reads (`readOnlyHint`). `True`, `False`, a list
      of the server's names for those to ask for, or a function of (context, arguments, call).
    - `trust_idempotent_hints`: believe `idempotentHint` and `readOnlyHint`: such a call is started again when nobody knows how it ended.
    - `timeout`: seconds for a call, as of any tool; `connect_timeout`: for connecting and listing.
    - `pins`: a file that keeps what was accepted, so that it holds in the next process too.
    - `recheck`: after so many seconds the tools are compared again before a call.
    - `env` (added to a small safe environment) and `headers` may hold credentials: they are told nowhere.
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
        self.name = text("the name of an MCP server", name)
        self.prefix = text("the prefix of an MCP server's tools", prefix)
        self._way = _way(name, command, url, env, cwd, headers)
        self._only = _names("only", only)
        self._approval: NeedsApproval | frozenset[str] | None = (
            needs_approval
            if needs_approval is None or isinstance(needs_approval, bool) or callable(needs_approval)
            else frozenset(_names("needs_approval", needs_approval) or ())
        )
        self._trusts = trust_idempotent_hints
        self._timeout = timeout
        self._connect_timeout = connect_timeout
        self._file = Path(pins) if pins is not None else None
        self._recheck = recheck
        self._accepted: dict[str, Listed] | None = None
        self._found: dict[str, Listed] = {}
        self._unwanted: list[str] = []
        self._places: WeakKeyDictionary[asyncio.AbstractEventLoop, _Place] = WeakKeyDictionary()

    def __repr__(self) -> str:
        return f"<MCPServer {self.name}: {self._way.shown}>"

    async def __aenter__(self) -> MCPServer:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()

    # -- what agents are given -------------------------------------------------------------------------------------------

    async def tools(self, accept: bool = False) -> list[Tool]:
        """The server's tools, for `Agent(tools=...)`. They are listed once; what is listed the first time is accepted.

        `ToolsChanged` if they are not those that were accepted before, here or in the file of pins. `accept=True` accepts them as
        they are now, and writes the file anew.
        """
        if accept or self._accepted is None:
            accepted = None if accept else read_pins(self._file, self.name) if self._file else None
            await self._connected(anew=True)
            found = self._found
            require_tools(self.name, found, self._only, self._unwanted)
            if accepted is not None and (differing := changes(accepted, found)):
                raise refused(self.name, differing, self._file)
            made = await self._read(found)
            if accepted is None and self._file is not None:
                write_pins(self._file, self.name, found)
            self._accepted = found
            self._warn_of_unenforced(made)
            return made
        return await self._read(self._accepted)

    def tools_sync(self, accept: bool = False) -> list[Tool]:
        """The same where no event loop runs, for workflows that are built when a module is imported."""

        async def listed() -> list[Tool]:
            try:
                return await self.tools(accept)
            finally:
                await self.aclose()

        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(listed())
        raise BadInput("tools_sync cannot be used where an event loop runs", do="write `await server.tools()`")

    @property
    def changes(self) -> list[Change]:
        """What differed from what was accepted when the server was last looked at."""
        if self._accepted is None:
            return []
        return changes(self._accepted, self._found)

    async def aclose(self) -> None:
        """End this event loop's connection. The next call makes another."""
        place = self._places.pop(asyncio.get_running_loop(), None)
        if place is not None and place.connection is not None:
            await place.connection.close()

    async def _read(self, found: Mapping[str, Listed]) -> list[Tool]:
        """The tools for agents. A hostile schema takes up to half a second, so others have a turn after each, and there is an end."""
        if isinstance(self._approval, frozenset) and (missing := sorted(self._approval - found.keys())):
            raise BadInput(
                f"needs_approval of MCP server {self.name!r} names a tool that is not there",
                expected=", ".join(found),
                found=missing[0],
                do="use the server's own names, without the prefix",
            )
        made = []
        try:
            async with asyncio.timeout(self._connect_timeout):
                for listed in found.values():
                    made.append(self._tool(listed))
                    await asyncio.sleep(0)
        except TimeoutError:
            told = f"the schemas of MCP server {self.name!r} could not be read in {self._connect_timeout:g} s"
            raise MCPFailed(told, found=f"{len(found):,} tools", do="name those that you need with only=[...]") from None
        name, count = Counter(each.name for each in made).most_common(1)[0] if made else ("", 0)
        if count > 1:
            raise BadInput(f"two tools of MCP server {self.name!r} would be called {name!r}", do="choose with only=[...]")
        return made

    def _warn_of_unenforced(self, made: list[Tool]) -> None:
        """Say which parts of the tools' schemas are not enforced, all in one."""
        lines = [
            f"  - {each.name}: {', '.join(parts)[:300]}"
            for each in made
            if isinstance(each.arguments, SchemaArguments) and (parts := each.arguments.checked.unenforced)
        ]
        if lines:
            told = f"parts of the schemas of MCP server {self.name!r} are not enforced before its tools are called"
            told += " (the server may check them itself):"
            warnings.warn(SchemaNotEnforced("\n".join([told, *lines])), stacklevel=3)

    def _tool(self, listed: Listed) -> Tool:
        try:
            name = checked_name(re.sub(r"[^a-zA-Z0-9_-]", "_", f"{self.prefix}{listed.name}"))
        except BadInput as error:
            told = f"tool {listed.name[:80]!r} of MCP server {self.name!r}: {error.summary}"
            raise BadInput(told, expected=error.expected, do="choose another prefix=, or leave it out with only=[...]") from None

        async def call(**arguments: Any) -> object:
            return await self._call(listed, arguments)

        return Tool(
            name=name,
            description=listed.description,
            function=call,
            arguments=SchemaArguments.of(name, listed.schema),
            needs_approval=self._asks(listed),
            idempotent=self._trusts and bool(listed.idempotent or listed.read_only),
            timeout=self._timeout,
        )

    def _asks(self, listed: Listed) -> NeedsApproval:
        if self._approval is None:
            return not listed.read_only
        return listed.name in self._approval if isinstance(self._approval, frozenset) else self._approval

    # -- calling -----------------------------------------------------------------------------------------------------------

    async def _call(self, listed: Listed, arguments: dict[str, Any]) -> object:
        """Call it; again only while it is certain that nothing was run."""
        failed: LegatoError | None = None
        for pause in PATIENCE:
            await asyncio.sleep(pause)
            try:
                connection = await self._connected()
            except MCPFailed as error:
                failed = error
                continue
            self._check(listed)
            try:
                return await self._once(connection, listed, arguments)
            except MCPError as error:
                failed = self._told(listed, error)
                if began_anew(error):
                    await connection.close()
                elif error.code != NOT_SENT:
                    break
        assert failed is not None
        raise failed from None

    async def _once(self, connection: Connection, listed: Listed, arguments: dict[str, Any]) -> object:
        try:
            result = await connection.client.call_tool(listed.name, arguments)
        except MCPError as error:
            if nobody_knows(error, connection):
                raise OutcomeUnknown(hide(self._way, f"the connection to MCP server {self.name!r} broke: {error.message}")) from None
            raise
        except (ValidationError, RuntimeError) as error:
            told = f"MCP server {self.name!r} answered something that cannot be read ({type(error).__name__}). It may have taken effect."
            raise MCPToolError(told) from None
        if result.is_error:
            raise MCPToolError(hide(self._way, words_of(result)))
        return output_of(result)

    def _told(self, listed: Listed, error: MCPError) -> MCPToolError:
        if error.code == PARSE_ERROR:
            told = f"MCP server {self.name!r} answered something that cannot be read: {error.message}. It may have taken effect."
            return MCPToolError(hide(self._way, told))
        run = "was not run" if never_ran(error) else "failed"
        return MCPToolError(hide(self._way, f"{listed.name!r} of MCP server {self.name!r} {run}: {error.message}"))

    def _check(self, listed: Listed) -> None:
        """Refuse a tool that is not what was accepted any more."""
        now = self._found.get(listed.name)
        if now is None or now.fingerprint != listed.fingerprint:
            raise MCPToolError(
                f"{listed.name!r} was not run: its server {self.name!r} has changed it since it was accepted",
                found="it is gone" if now is None else "it is another one now",
                do="tell the people who run this program: they can look at the change, and accept it",
            )

    async def _connected(self, anew: bool = False) -> Connection:
        """A connection whose server was looked at not long ago, or just now. If it broke meanwhile, another: nothing was run on it."""
        place = self._places.setdefault(asyncio.get_running_loop(), _Place())
        async with place.lock:
            for last in (False, True):
                try:
                    if place.connection is None or place.connection.over:
                        place.connection = await Connection(self._way).open(self._connect_timeout)
                except Exception as error:  # whatever the way there raises: a missing program, a refused port, a broken protocol
                    raise unreachable(self.name, self._way, error) from None
                connection = place.connection
                if not anew and time.monotonic() - connection.looked < self._recheck:
                    return connection
                try:
                    await self._look(connection)
                    return connection
                except (MCPError, TimeoutError, ValidationError) as error:
                    if isinstance(error, MCPError) and began_anew(error):
                        await connection.close()
                    if last or not connection.over:
                        raise unreachable(self.name, self._way, error) from None
        raise AssertionError("two attempts end somehow")

    async def _look(self, connection: Connection) -> None:
        """See what the server has now. Its words are kept for comparing, and are offered to nobody."""
        found: dict[str, Listed] = {}
        unwanted: list[str] = []
        cursor = None
        async with asyncio.timeout(self._connect_timeout):
            for _ in range(MAX_PAGES):
                page = await connection.client.list_tools(cursor=cursor)
                for each in page.tools:
                    if self._only is not None and each.name not in self._only:
                        unwanted += [each.name] if len(unwanted) < _MAX_NAMES else []
                        continue
                    found[each.name] = _listed(each)
                    if len(found) > MAX_TOOLS:
                        self._refuse_list(f"at most {MAX_TOOLS:,} tools", "more")
                if (cursor := page.next_cursor) is None:
                    break
            else:
                self._refuse_list(f"at most {MAX_PAGES} pages of tools", "more")
        connection.looked, self._found, self._unwanted = time.monotonic(), found, unwanted

    def _refuse_list(self, expected: str, found: str) -> NoReturn:
        do = "name those that you need with only=[...]"
        raise MCPFailed(f"the list of tools of MCP server {self.name!r} is too long", expected=expected, found=found, do=do)


def _listed(tool: ServersTool) -> Listed:
    hints = tool.annotations
    return Listed(
        name=tool.name,
        description=tool.description or tool.title or "",
        schema=tool.input_schema,
        read_only=hints.read_only_hint if hints else None,
        destructive=hints.destructive_hint if hints else None,
        idempotent=hints.idempotent_hint if hints else None,
    )


def _way(
    name: str,
    command: Sequence[str] | None,
    url: str | None,
    env: Mapping[str, str] | None,
    cwd: str | Path | None,
    headers: Mapping[str, str] | None,
) -> Way:
    if (command is None) == (url is None):
        raise BadInput(
            f"MCP server {name!r} needs a command or a url, and not both", do='write command=["mcp-server-time"], or url="https://..."'
        )
    if command is None:
        address = _checked_url(name, url)
        if env is not None or cwd is not None:
            raise BadInput(f"MCP server {name!r} has a url: env= and cwd= are for commands", do="give credentials with headers=")
        return Address(url=address, headers=dict(headers or {}))
    words = _checked_command(name, command)
    if headers is not None:
        raise BadInput(f"MCP server {name!r} has a command: headers= are for urls", do="give credentials with env=")
    return Command(command=words, env=dict(env or {}), cwd=Path(cwd) if cwd is not None else None, words=deque(maxlen=LINES))


def _checked_url(name: str, url: object) -> str:
    if not isinstance(url, str) or not url.startswith(("http://", "https://")):
        raise BadInput(f"the url of MCP server {name!r} is not one", expected="http:// or https://")
    return url


def _checked_command(name: str, command: Sequence[str]) -> tuple[str, ...]:
    if isinstance(command, str) or not command or not all(isinstance(each, str) for each in command):
        raise BadInput(f"the command of MCP server {name!r} is a list of texts", do='write command=["uvx", "mcp-server-time"]')
    return tuple(command)


def _names(what: str, given: Any) -> frozenset[str] | None:
    if given is None:
        return None
    if isinstance(given, str) or not isinstance(given, Collection) or not all(isinstance(each, str) for each in given):
        raise BadInput(f"{what}= takes a list of the server's names for its tools", found=repr(given)[:80])
    return frozenset(given)
