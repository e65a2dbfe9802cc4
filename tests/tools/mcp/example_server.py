"""A real MCP server, made with the official package, for tests to start, change and kill.

    python -m tests.tools.mcp.example_server FOLDER [--http PORT]

FOLDER/effects has a line for each payment and lookup. FOLDER/description, if it exists, is the description of the tool `add`. While
FOLDER/hang exists, `pay` and `look` record their effect and then never answer.
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


def make_example_server(folder: Path) -> MCPServer:
    server = MCPServer("example", log_level="ERROR")
    description = folder / "description"

    async def record_effect(line: str) -> None:
        with (folder / "effects").open("a") as effects:
            effects.write(f"{line}\n")
        if (folder / "hang").exists():
            await asyncio.sleep(600)

    @server.tool(
        description=description.read_text() if description.exists() else "Add two numbers.",
        annotations=ToolAnnotations(read_only_hint=True),
    )
    def add(a: int, b: int) -> str:
        return str(a + b)

    @server.tool()
    async def pay(cents: int) -> str:
        """Pay somebody."""
        await record_effect(f"pay {cents}")
        return f"paid {cents}"

    @server.tool(annotations=ToolAnnotations(read_only_hint=False, idempotent_hint=True))
    async def look(key: str) -> str:
        """Look something up, and note that it was looked up."""
        await record_effect(f"look {key}")
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
        """Fails, and repeats a secret."""
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
    arguments = parser.parse_args()
    (arguments.folder / "pid").write_text(str(os.getpid()))
    if arguments.http:
        make_example_server(arguments.folder).run("streamable-http", port=arguments.http)
    else:
        make_example_server(arguments.folder).run()


if __name__ == "__main__":
    main()
