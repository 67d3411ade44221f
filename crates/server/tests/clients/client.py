"""Uses the client that `openapi-python-client` generates: `client.py FOLDER URL`."""

import json
import sys

sys.path.insert(0, sys.argv[1])

from contexture_client import Client
from contexture_client.api.sessions import create_session, list_items, show_session
from contexture_client.api.turns import run_turn, stream_turn
from contexture_client.models import (
    NewSession,
    Problem,
    Settings,
    TextDeltaEvent,
    TextPart,
    TurnEndEvent,
    TurnRequest,
    TurnStatus,
)
from contexture_client.models.list_items_view import ListItemsView

client = Client(base_url=sys.argv[2])
session = create_session.sync(client=client, body=NewSession(id="demo"))
assert session.id == "demo", session
assert create_session.sync(client=client).id, "a body is optional"

turn = run_turn.sync("demo", client=client, body=TurnRequest(user="hi"))
assert turn.status == TurnStatus.COMPLETED and turn.text == "Hello.", turn

request = TurnRequest(user=[TextPart(type_="text", text="hi")], settings=Settings(temperature=0.2))
with client.get_httpx_client().stream(**stream_turn._get_kwargs("demo", body=request)) as response:
    events = [json.loads(line[6:]) for line in response.iter_lines() if line.startswith("data: ")]
deltas = [TextDeltaEvent.from_dict(it).text for it in events if it["type"] == "text.delta"]
assert "".join(deltas) == "Hello again.", events
assert TurnEndEvent.from_dict(events[-1]).status == TurnStatus.COMPLETED, events

page = list_items.sync("demo", client=client, view=ListItemsView.ALL, limit=1000)
kinds = [it.kind for it in page.items]
assert "user" in kinds and "turn_ended" in kinds, kinds

missing = show_session.sync("nothing", client=client)
assert isinstance(missing, Problem) and missing.code == "not_found", missing
