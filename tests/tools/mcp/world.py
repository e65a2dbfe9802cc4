"""A real MCP server, made with the official package, for tests to start, change and kill.

    python -m tests.tools.mcp.world FOLDER [--http PORT]

What it does is written down in FOLDER: `deeds` has a line for each payment. FOLDER/description, where there is one, is what `add` says of
itself; while FOLDER/hang exists, `pay` and `look` do their deed and then never answer.
"""

import argparse
import asyncio
import base64
import os
from pathlib import Path

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ImageContent, TextContent, ToolAnnotations
from pydantic import BaseModel, Field

PICTURE = b"\x89PNG not really"


class Weather(BaseModel):
    city: str
    degrees: int


def world(folder: Path) -> MCPServer:
    server = MCPServer("world", log_level="ERROR")
    described = folder / "description"

    async def deed(word: str) -> None:
        with (folder / "deeds").open("a") as deeds:
            deeds.write(f"{word}\n")
        if (folder / "hang").exists():
            await asyncio.sleep(600)

    @server.tool(
        description=described.read_text() if described.exists() else "Add two numbers.", annotations=ToolAnnotations(read_only_hint=True)
    )
    def add(a: int, b: int) -> str:
        return str(a + b)

    @server.tool()
    async def pay(cents: int) -> str:
        """Pay somebody."""
        await deed(f"pay {cents}")
        return f"paid {cents}"

    @server.tool(annotations=ToolAnnotations(read_only_hint=False, idempotent_hint=True))
    async def look(key: str) -> str:
        """Look something up, and note that it was looked up."""
        await deed(f"look {key}")
        return f"found {key}"

    @server.tool(annotations=ToolAnnotations(read_only_hint=True))
    def picture() -> list[TextContent | ImageContent]:
        """A picture, with words."""
        data = base64.b64encode(PICTURE).decode()
        return [TextContent(type="text", text="this is order 7"), ImageContent(type="image", data=data, mime_type="image/png")]

    @server.tool(annotations=ToolAnnotations(read_only_hint=True))
    def weather(city: str) -> Weather:
        """The weather."""
        return Weather(city=city, degrees=21)

    @server.tool(annotations=ToolAnnotations(read_only_hint=True))
    def fails() -> str:
        """Fails."""
        raise ToolError("there is no order 8")

    @server.tool(annotations=ToolAnnotations(read_only_hint=True))
    def says_secret() -> str:
        """Fails, and tells what it was given."""
        raise ToolError(f"token {os.environ.get('TOKEN', '')}")

    @server.tool(name="log.in/now")
    def log_in(user: str, password: str = Field(json_schema_extra={"format": "password"})) -> str:
        """Log in."""
        return f"welcome {user}"

    return server


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--http", type=int, default=0)
    given = parser.parse_args()
    (given.folder / "pid").write_text(str(os.getpid()))
    if given.http:
        world(given.folder).run("streamable-http", port=given.http)
    else:
        world(given.folder).run()


if __name__ == "__main__":
    main()
