"""The server: it lists the tools, checks their arguments, and calls them one after the other."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import Executor
from typing import Any, Final

from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp_types import CallToolRequestParams, CallToolResult, ListToolsResult, TextContent, ToolAnnotations
from mcp_types import Tool as ListedTool

from twisted_kafka.config.errors import ConfigError
from twisted_kafka.console.cluster.problems import CommandError
from twisted_kafka.tools.agent.answers import NOTE, answer
from twisted_kafka.tools.agent.tool import Context, Tool

NAME: Final = "twisted-kafka"
INSTRUCTIONS: Final = (
    "Tools for a Kafka cluster. Begin with cluster_health or cluster_overview. Answers are bounded: `stopped` and `left_out` say "
    f"how. {NOTE} Tools that change something first return a preview; show it to the user before confirming."
)


def make_server(tools: Sequence[Tool], context: Context, executor: Executor, version: str) -> "Server[Any]":
    """Return a server with these tools. ``executor`` has one thread: a session belongs to one at a time."""
    by_name = {each.name: each for each in tools}
    listed = [_listed(each) for each in tools]

    async def list_tools(_context: object, _params: object) -> ListToolsResult:
        return ListToolsResult(tools=listed)

    async def call_tool(_context: object, params: CallToolRequestParams) -> CallToolResult:
        tool = by_name.get(params.name)
        if tool is None:
            return _result(f"there is no tool {params.name!r:.80}: list them", is_error=True)
        return await asyncio.get_running_loop().run_in_executor(executor, call, tool, context, params.arguments or {})

    return Server(NAME, version=version, instructions=INSTRUCTIONS, on_list_tools=list_tools, on_call_tool=call_tool)


def call(tool: Tool, context: Context, given: dict[str, Any]) -> CallToolResult:
    """Call a tool; an error that the caller can correct, or that a broker reports, is its result."""
    try:
        return _result(answer(tool.call(context, tool.checked(given))), is_error=False)
    except (CommandError, ConfigError, ValueError, OSError) as error:
        return _result(" ".join(str(error).split()), is_error=True)


def _result(text: str, *, is_error: bool) -> CallToolResult:
    return CallToolResult(content=[TextContent(text=text)], is_error=is_error)


def _listed(tool: Tool) -> ListedTool:
    hints = ToolAnnotations(
        read_only_hint=not tool.writes, destructive_hint=tool.destroys, idempotent_hint=not tool.writes, open_world_hint=False
    )
    return ListedTool(name=tool.name, description=tool.description, input_schema=tool.schema, annotations=hints)


async def serve(server: "Server[Any]") -> None:
    """Serve one client over standard input and output, until it closes them."""
    async with stdio_server() as (received, sent):
        await server.run(received, sent, server.create_initialization_options())
