import json
import subprocess
import sys

SEEN = """
import json, sys
from commands.main import import_invoke
import_invoke()
import commands.program
early = [name for name in ("asyncio", "email", "ssl", "unittest", "zipfile") if name in sys.modules]
import importlib.metadata, unittest.mock
print(json.dumps([early, importlib.metadata.version("invoke"), unittest.mock.Mock(return_value=7)()]))
"""


def test_a_short_call_imports_neither_asyncio_nor_email_and_both_can_be_had_later() -> None:
    seen = subprocess.run([sys.executable, "-c", SEEN], capture_output=True, text=True, check=True).stdout
    early, version, answer = json.loads(seen)
    assert early == []
    assert version[0].isdigit()
    assert answer == 7
