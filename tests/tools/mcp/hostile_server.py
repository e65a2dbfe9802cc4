"""A real MCP server that tries to block its client or fill its memory, made with the official package.

    python -m tests.tools.mcp.hostile_server KIND [--http PORT]

`patterns`: schemas on which `re` never ends. `doubling`: a schema that is evaluated 2**60 times.
`tools`: 20,000 tools on pages of 1,000. `pages`: always one more. `compressed`: 400 MB in 400 KB of gzip.
`long`: an answer of 64 MB.
"""

import argparse
import asyncio
import zlib

import uvicorn
from mcp import stdio_server
from mcp.server.lowlevel import Server
from mcp.types import CallToolResult, ListToolsResult, TextContent, Tool

EVIL = "^(a+)+$"
LOOKAHEAD = "^(?=.*[0-9]).+$"


def make_schema(properties=None, **more):
    return {"type": "object", "properties": properties or {}, **more}


def make_doubling_schema():
    steps = {f"d{at}": {"allOf": [{"$ref": f"#/$defs/d{at + 1}"}] * 2} for at in range(60)}
    return make_schema({"word": {"$ref": "#/$defs/d0"}}, **{"$defs": {**steps, "d60": {"type": "string"}}})


TOOLS = {
    "patterns": [
        Tool(name="matches", input_schema=make_schema({"word": {"type": "string", "pattern": EVIL}, "count": {"type": "integer"}})),
        Tool(name="names", input_schema=make_schema(patternProperties={EVIL: {}}, additionalProperties=False)),
        Tool(name="looks", input_schema=make_schema({"word": {"type": "string", "pattern": LOOKAHEAD}, "count": {"type": "integer"}})),
        Tool(name="returns", input_schema=make_schema(), output_schema=make_schema({"word": {"type": "string", "pattern": EVIL}})),
    ],
    "doubling": [Tool(name="doubles", input_schema=make_doubling_schema())],
    "tools": [Tool(name=f"tool_{at}", input_schema=make_schema({"word": {"type": "string"}})) for at in range(20_000)],
}


def make_hostile_server(kind):
    tools = TOOLS.get(kind, [Tool(name="says", input_schema=make_schema())])

    async def list_tools(context, params):
        start = int(params.cursor) if params and params.cursor else 0
        if kind == "pages":
            return ListToolsResult(tools=[Tool(name=f"tool_{start}", input_schema=make_schema())], next_cursor=str(start + 1))
        end = start + 1000
        return ListToolsResult(tools=tools[start:end], next_cursor=str(end) if end < len(tools) else None)

    async def call_tool(context, params):
        text = "x" * 64_000_000 if kind == "long" else "said"
        evil = {"word": "a" * 40 + "b"} if params.name == "returns" else None
        return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=evil)

    return Server("hostile", on_list_tools=list_tools, on_call_tool=call_tool)


def compress_answers(app):
    """Return the application with answers of 400 MB of spaces in gzip to tool calls."""
    packer = zlib.compressobj(wbits=31)
    bomb = b"".join(packer.compress(b" " * 1_000_000) for _ in range(400)) + packer.flush()

    async def answer(scope, receive, send):
        if scope["type"] == "http" and (b"mcp-method", b"tools/call") in scope["headers"]:
            headers = [(b"content-type", b"application/json"), (b"content-encoding", b"gzip")]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": bomb})
        else:
            await app(scope, receive, send)

    return answer


async def serve_stdio(server):
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("kind")
    parser.add_argument("--http", type=int, default=0)
    arguments = parser.parse_args()
    server = make_hostile_server(arguments.kind)
    if not arguments.http:
        asyncio.run(serve_stdio(server))
        return
    app = server.streamable_http_app(json_response=True)
    uvicorn.run(compress_answers(app) if arguments.kind == "compressed" else app, port=arguments.http, log_level="error")


if __name__ == "__main__":
    main()
