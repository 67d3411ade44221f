"""Schemathesis against the server: `openapi.py URL EXAMPLES`.

The document must be valid OpenAPI 3.1, and the server must do what it says: no 5xx, no status, header, content type or
document that is not described, nothing taken that the description refuses. The project behind the server has the prompts
`chat` and `shop` and the flow `chat`; the model calls the tool of `shop` once, and says something short after that.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

import jsonschema
from openapi_spec_validator import OpenAPIV31SpecValidator

URL, EXAMPLES = sys.argv[1], sys.argv[2]

# What is not asked of the server, with the reason.
NOT_CHECKED = [
    # Its requests are named by clients, and a name that was deleted may be used again at once.
    "use_after_free",
    # It takes what it has created for reachable, whatever else deletes it in the meantime.
    "ensure_resource_availability",
    # The server of this test has no keys; the server's own tests try other tenants on every route.
    "ignored_auth",
    "object_level_authorization",
]
# Streams that never end; `events` below reads them.
ENDLESS = ["follow_events", "follow_run", "follow_blackboard"]
# Here the description and the server may differ about what is well formed, and about nothing else. OpenAI has one status
# for all that it does not want; and deep in a message serde takes a number for the name of a kind (`"type": 0`).
# Nor can a schema say which values of a client's tool are themselves valid JSON Schemas.
LOOSE = ["complete_chat", "append_messages", "create_thread", "run_turn", "stream_turn", "run_prompt", "resolve_prompt"]
LOOSE += ["inspect_prompt"]

# Here a request that fits its description may still be refused with 400.
UNDESCRIBED = ["run_turn", "stream_turn", "run_prompt", "resolve_prompt", "inspect_prompt", "compact_session"]
UNDESCRIBED += ["start_run", "stream_run", "answer_wait", "answer_client_tools", "stream_client_tools", "list_run_events"]
# The lines of an import are JSON within a text; metadata is any JSON, of which numbers with too many digits are refused.
UNDESCRIBED += ["import_memories", "add_knowledge_document"]


def call(method, path, body=None, accept="application/json"):
    data = None if body is None else json.dumps(body).encode()
    headers = {"content-type": "application/json", "accept": accept}
    request = urllib.request.Request(URL + path, data, headers, method=method)
    with urllib.request.urlopen(request, timeout=30) as answer:
        text = answer.read().decode()
    return json.loads(text) if text and accept == "application/json" else text


def seed():
    """Makes things that can be named; returns their names by the operation's path."""
    call("POST", "/v1/sessions", {"id": "asks"})
    waiting = call("POST", "/v1/sessions/asks/turns", {"prompt": "shop", "user": "Where is order 7?"})
    approval = waiting["approvals"][0]["id"]
    for name in ["s1", "s2", "long"]:
        call("POST", "/v1/sessions", {"id": name})
        for idx in range(3 if name != "long" else 12):
            text = f"Tell me about {idx}. " + ("The order number is 1042. " * 40 if name == "long" else "")
            call("POST", f"/v1/sessions/{name}/turns", {"user": text})
    call("POST", "/v1/sessions/long/compact", {"prompt": "chat"})
    thread = call("POST", "/v1/sessions/s1/threads", {"label": "aside", "inherit_history": True})["id"]
    doomed = [f"doomed{idx}" for idx in range(40)]
    for name in doomed:
        call("POST", "/v1/sessions", {"id": name})
    doomed_threads = [call("POST", "/v1/sessions/s2/threads", {})["id"] for _ in range(20)]
    runs = [call("POST", "/v1/flows/chat/runs", {"wait": True})["run"] for _ in range(23)]
    call("POST", f"/v1/runs/{runs[0]}/waits/ask.1", {"value": "Hello"})
    doomed_bases = [f"doomed{idx}" for idx in range(20)]
    for name in ["handbook", *doomed_bases]:
        call("PUT", f"/v1/knowledge/{name}", {})
    documents = ["refunds", "shop/shipping"]
    for name in documents:
        call("POST", "/v1/knowledge/handbook/documents", {"id": name, "text": f"# {name}\n\nIt takes 30 days."})
    return {
        "knowledge": documents,
        "bases": ["handbook"],
        "doomed_bases": doomed_bases,
        "flows": ["chat"],
        "runs": runs[:3],
        "doomed_runs": runs[3:],
        "sessions": ["s1", "s2", "asks", "long"],
        "threads": ["s1", "long", thread],
        "prompts": ["chat", "shop"],
        "passes": ["s1.1", "s1.2", "s2.1", "long.3"],
        "approvals": [approval],
        "models": ["chat", "mock/m-1"],
        "doomed": doomed,
        "doomed_threads": doomed_threads,
    }


def with_names(document, names):
    """Offers names that are there beside those that are made up."""
    for path, item in document["paths"].items():
        noun = path.split("/")[2] if path.startswith("/v1/") else ""
        for method, operation in item.items():
            doomed = {"sessions": "doomed", "threads": "doomed_threads", "runs": "doomed_runs"} if method == "delete" else {}
            bases = names["doomed_bases" if method == "delete" else "bases"]
            for parameter in operation.get("parameters", []):
                known = {"turn": ["t1", "t2"], "n": [1], "wait": ["ask.1", "ask.2"], "base": bases}.get(parameter["name"], names.get(doomed.get(noun, noun)))
                if parameter["in"] == "path" and known:
                    schema = parameter["schema"]
                    parameter["schema"] = {"anyOf": [{"enum": known}, {"enum": known[:1]}, schema]}
    return document


def described(document, name, text):
    """Reads a stream of events, each of which must be described; returns their kinds."""
    schema = {"$ref": f"#/components/schemas/{name}", "components": document["components"]}
    validator = jsonschema.Draft202012Validator(schema)
    frames = [dict(line.split(": ", 1) for line in it.split("\n")) for it in text.strip().split("\n\n")]
    for frame in frames:
        data = json.loads(frame["data"])
        validator.validate(data)
        assert data["type"] == frame["event"], frame
    return [it["event"] for it in frames]


def events(document):
    """Reads the events of a turn and of a run."""
    call("POST", "/v1/sessions", {"id": "told"})
    for path in ["/v1/sessions/told/turns", "/v1/sessions/told/turns/stream"]:
        text = call("POST", path, {"user": "Hello"}, "text/event-stream")
        kinds = described(document, "TurnEvent", text)
        assert kinds[0] == "turn.start" and kinds[-1] == "turn.end", kinds
    run = call("POST", "/v1/flows/chat/runs", {"wait": True})["run"]
    call("POST", f"/v1/runs/{run}/waits/ask.1", {"value": "Hello"})
    while not any(it["id"] == "ask.2" for it in call("GET", f"/v1/runs/{run}")["waits"]):
        time.sleep(0.05)
    call("DELETE", f"/v1/runs/{run}")
    text = call("GET", f"/v1/runs/{run}/events", accept="text/event-stream")
    assert call("GET", f"/v1/runs/{run}/events/stream", accept="text/event-stream") == text
    kinds = described(document, "RunEvent", text)
    assert kinds[0] == "run.start" and "node.event" in kinds and kinds[-1] == "run.end", kinds


def fuzz(document, operations, not_checked):
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "openapi.json"
        file.write_text(json.dumps(document))
        config = Path(folder) / "schemathesis.toml"
        # What a prompt makes of an input is its own affair: 422 is an answer to a request that is well formed.
        config.write_text(
            "[checks.positive_data_acceptance]\n"
            'expected-statuses = ["2xx", "401", "403", "404", "409", "410", "422"]\n'
            # No description of a body can say which values in it are JSON Schemas that are valid, or which numbers have
            # too many digits; nor can that of a query say which events exist.
            f"[[operations]]\ninclude-operation-id = {json.dumps(UNDESCRIBED)}\n"
            "[operations.checks.positive_data_acceptance]\n"
            'expected-statuses = ["2xx", "400", "401", "403", "404", "409", "410", "422"]\n'
        )
        command = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(config), "run", str(file)]
        command += ["--url", URL, "--checks", "all", "--exclude-checks", ",".join(not_checked), *operations]
        # One worker: with more of them Python 3.11 stumbles over its own parser now and then.
        command += ["--workers", "1", "--max-examples", EXAMPLES, "--seed", "4747", "--request-timeout", "20"]
        command += ["--continue-on-failure", "--no-color", "--warnings", "off", "--no-shrink"]
        command += ["--generation-database", "none", "--suppress-health-check", "all"]
        hooks = Path(__file__).parent
        env = os.environ | {"SCHEMATHESIS_HOOKS": "hooks", "PYTHONPATH": str(hooks), "PYTHONDONTWRITEBYTECODE": "1"}
        return subprocess.run(command, cwd=folder, env=env, check=False).returncode


document = call("GET", "/openapi.json")
OpenAPIV31SpecValidator(document).validate()
names = seed()
events(document)
document = with_names(document, names)
loose = [it for name in LOOSE for it in ("--include-operation-id", name)]
others = [it for name in [*ENDLESS, *LOOSE] for it in ("--exclude-operation-id", name)]
data = ["negative_data_rejection", "positive_data_acceptance"]
outcomes = [fuzz(document, others, NOT_CHECKED), fuzz(document, loose, NOT_CHECKED + data)]
sys.exit(max(outcomes))
