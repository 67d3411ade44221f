"""Runs sequences of commands on the local backend of the official SDK, each in a folder of its own."""

import json
import sys
import tempfile

from anthropic.lib.tools import ToolError
from anthropic.lib.tools._beta_builtin_memory_tool import BetaLocalFilesystemMemoryTool


def answer(tool, command):
    try:
        return {"text": tool.call(command)}
    except ToolError as err:
        return {"error": str(err)}
    except OSError:
        return {"system": True}


def answers(commands):
    with tempfile.TemporaryDirectory() as folder:
        tool = BetaLocalFilesystemMemoryTool(folder)
        return [answer(tool, it) for it in commands]


json.dump([answers(it) for it in json.load(sys.stdin)], sys.stdout)
