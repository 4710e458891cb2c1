"""The server of tools for agents, asked by the official client over standard input and output."""

import asyncio
import json
import os
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from bathyscope.cli.mcp import make_server
from bathyscope.core.errors import UsageError

HERE = Path(__file__).parents[2]
needs_mcp = pytest.mark.skipif(find_spec("mcp") is None, reason="mcp is not installed")


@pytest.mark.skipif(find_spec("mcp") is not None, reason="mcp is installed")
def test_without_the_package_it_says_what_to_install():
    with pytest.raises(UsageError, match=r"bathyscope\[mcp\]"):
        make_server()


@needs_mcp
def test_the_official_client_asks(tmp_path):
    from mcp import ClientSession, StdioServerParameters, stdio_client

    script = tmp_path / "train.py"
    script.write_text(
        "import torch\nmodel = torch.nn.Linear(4, 1)\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "print('hello')\n"
        "for _ in range(5):\n"
        "    model(torch.randn(8, 4)).square().mean().backward()\n    optimizer.step()\n"
    )
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "bathyscope", "mcp"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        cwd=tmp_path,
    )

    async def ask():
        async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
            await session.initialize()
            tools = [tool.name for tool in (await session.list_tools()).tools]
            explained = await session.call_tool("explain", {"code": "dead-units"})
            unknown = await session.call_tool("explain", {"code": "no-such-code"})
            watched = await session.call_tool("run", {"script": str(script), "steps": 5})
            return tools, *(json.loads(r.content[0].text) for r in (explained, unknown, watched))

    tools, explained, unknown, watched = asyncio.run(ask())
    assert tools == ["diagnose", "explain", "forecast", "autopsy", "run"]
    assert explained["dead-units"]["code"] == "dead-units"
    assert "no-such-code" in unknown["error"]
    assert "gradients-not-cleared" in [f["code"] for f in watched["findings"]]
