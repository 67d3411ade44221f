#!/usr/bin/env python3
"""Makes the databases and answers in this folder. See README.md.

Usage: python3 make.py PROGRAM, where PROGRAM is the `contexture` of the version whose data is to be kept.
PostgreSQL's programs (`initdb`, `postgres`, `createdb`, `pg_dump`) must be in PATH or in Debian's folders.
"""

import glob
import hashlib
import http.client
import http.server
import json
import os
import pwd
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
from pathlib import Path

HERE = Path(__file__).resolve().parent
# The address in the files of the project; the model's real one replaces it.
PLACEHOLDER = "http://127.0.0.1:4711"
WORDS = "The blue parcel of order {n} is on its way to Rome. " * 6


# --- The model and the service behind the tools ----------------------------------------------------------------------


class Model(http.server.BaseHTTPRequestHandler):
    """Speaks the OpenAI dialect, and decides by the newest message what to say."""

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.send_json(200, {"state": "shipped"} if "/orders/" in self.path else {"paid": True})

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        if not self.path.endswith("/chat/completions"):
            return self.do_GET()
        request = json.loads(body)
        last = request["messages"][-1]
        said = last["content"] if isinstance(last["content"], str) else json.dumps(last["content"])
        tools = [it["function"]["name"] for it in request.get("tools", [])]
        if "break" in said:
            return self.send_json(400, {"error": {"message": "This does not work.", "type": "invalid_request_error"}})
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        if last["role"] == "tool":
            self.say("Order 7 is ", "shipped.")
        elif "summar" in said.lower():
            asked = " ".join(f"Where is order {n}?" for n in range(1, 9))
            self.say(f"## Summary\nThe user asked: {asked} All are on their way to Rome.")
        elif "Pay order" in said and "refund" in tools:
            self.call("refund", {"number": 7})
        elif "order 7" in said and "find_order" in tools:
            self.call("find_order", {"number": 7})
        elif "screen" in said and "look" in tools:
            self.call("look", {})
        elif "story" in said:
            for word in ["Once ", "upon ", "a ", "time"]:
                self.say(word, is_end=False)
                time.sleep(0.05)
            self.wait_until_left()
        elif "slowly" in said:
            time.sleep(2)
            self.say("Here it is.")
        else:
            self.say("Very ", f"well: {said[:40].strip()}.")

    def wait_until_left(self):
        self.connection.settimeout(600)
        try:
            self.connection.recv(1)
        except OSError:
            pass

    def say(self, *texts, is_end=True):
        for text in texts:
            self.chunk({"content": text})
        if is_end:
            self.end("stop")

    def call(self, name, arguments):
        function = {"name": name, "arguments": json.dumps(arguments)}
        self.chunk({"tool_calls": [{"index": 0, "id": f"call_{name}", "type": "function", "function": function}]})
        self.end("tool_calls")

    def end(self, reason):
        usage = {"prompt_tokens": 40, "completion_tokens": 8, "total_tokens": 48}
        self.chunk({}, finish_reason=reason, usage=usage)
        self.wfile.write(b"data: [DONE]\n\n")

    def chunk(self, delta, finish_reason=None, usage=None):
        choice = {"index": 0, "delta": {"role": "assistant", **delta}, "finish_reason": finish_reason}
        chunk = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m-1",
                 "choices": [choice], "usage": usage}
        self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
        self.wfile.flush()

    def send_json(self, status, document):
        data = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


class ModelServer(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_):
        pass  # a killed client


# --- PostgreSQL ------------------------------------------------------------------------------------------------------


class Postgres:
    """A server on a fresh cluster, which is gone afterwards."""

    def __enter__(self):
        folders = os.environ["PATH"].split(":") + sorted(glob.glob("/usr/lib/postgresql/*/bin"))
        self.programs = next(it for it in folders if all(Path(it, p).is_file() for p in ["initdb", "postgres"]))
        # It refuses to run as root.
        self.account = {"user": "postgres", "group": pwd.getpwnam("postgres").pw_gid} if os.geteuid() == 0 else {}
        self.folder = tempfile.mkdtemp(prefix="legacy-pg-")
        if self.account:
            shutil.chown(self.folder, "postgres")
        data = f"{self.folder}/data"
        args = ["--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync", "-D", data]
        subprocess.run([f"{self.programs}/initdb", *args], check=True, stdout=subprocess.DEVNULL, cwd=self.folder,
                       **self.account)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        settings = ["listen_addresses=127.0.0.1", "unix_socket_directories=", f"port={self.port}"]
        settings = [it for setting in settings for it in ["-c", setting]]
        self.server = subprocess.Popen([f"{self.programs}/postgres", "-D", data, *settings], cwd=self.folder,
                                       stderr=subprocess.DEVNULL, **self.account)
        until("PostgreSQL is up", lambda: self.tool("createdb", "legacy", check=False).returncode == 0)
        return self

    def __exit__(self, *_):
        self.server.send_signal(signal.SIGINT)
        self.server.wait()
        shutil.rmtree(self.folder)

    def tool(self, name, *args, check=True):
        at = ["-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres"]
        return subprocess.run([name, *at, *args], check=check, text=True, capture_output=True)

    def url(self):
        return f"postgres://postgres@127.0.0.1:{self.port}/legacy"

    def dump(self):
        text = self.tool("pg_dump", "--no-owner", "--no-privileges", "--inserts", "legacy").stdout
        # Commands of psql and comments mean nothing to a driver.
        lines = [it for it in text.splitlines() if not it.startswith(("\\", "--"))]
        return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip() + "\n"


# --- The program -----------------------------------------------------------------------------------------------------


def until(what, test, seconds=30):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := test():
            return found
        time.sleep(0.05)
    raise SystemExit(f"not in time: {what}")


class Program:
    """The command line and servers of one version, on a project and a store."""

    def __init__(self, binary, project, store):
        self.binary, self.project, self.store = binary, project, store
        self.key = None

    def cli(self, *args):
        command = [self.binary, *args, "--project", self.project, "--store", self.store, "--json"]
        out = subprocess.run(command, check=True, text=True, capture_output=True).stdout
        return json.loads(out)

    def serve(self, **overrides):
        env = {**os.environ, **{f"CONTEXTURE_SERVER_{name.upper()}": str(value) for name, value in overrides.items()}}
        command = [self.binary, "serve", self.project, "--store", self.store, "--listen", "127.0.0.1:0", "--json"]
        log = open(f"{self.project}/log", "a")
        self.server = subprocess.Popen([*command, "--log", "warn"], env=env, stdout=subprocess.PIPE, stderr=log)
        self.address = json.loads(self.server.stdout.readline())["listening"].removeprefix("http://")

    def stop(self):
        self.server.terminate()
        self.server.wait()

    def kill(self):
        self.server.kill()
        self.server.wait()

    def send(self, method, path, body=None, accept=None, once=None, key=None, headers=(), timeout=60):
        connection = http.client.HTTPConnection(self.address, timeout=timeout)
        sent = dict(headers)
        sent.update({"authorization": f"Bearer {key or self.key}"} if key or self.key else {})
        sent.update({"accept": accept} if accept else {})
        sent.update({"idempotency-key": once} if once else {})
        sent.update({"content-type": "application/json"} if body is not None else {})
        connection.request(method, path, None if body is None else json.dumps(body), sent)
        return connection.getresponse()

    def ask(self, method, path, body=None, expect=(200, 201, 202), **more):
        response = self.send(method, path, body, **more)
        data = response.read()
        if response.status not in expect:
            raise SystemExit(f"{method} {path}: {response.status} {data.decode()}")
        return json.loads(data) if data else None

    def get(self, path, **more):
        return self.ask("GET", path, **more)

    def post(self, path, body, **more):
        return self.ask("POST", path, body, **more)

    def session(self, name, **more):
        self.post("/v1/sessions", {"id": name}, **more)

    def turn(self, session, user, once=None, key=None, expect=(200,), **more):
        return self.post(f"/v1/sessions/{session}/turns", {"user": user, **more}, once=once, key=key, expect=expect)

    def run(self, flow, session, once=None, key=None, wait=True, **given):
        body = {"session": session, "input": given, "wait": wait}
        return self.post(f"/v1/flows/{flow}/runs", body, once=once, key=key)

    def answer(self, run, wait, value):
        return self.post(f"/v1/runs/{run}/waits/{wait}", {"value": value})

    def aside(self, call):
        """Makes a call whose answer nobody waits for."""

        def quiet():
            try:
                call()
            except (OSError, http.client.HTTPException, SystemExit):
                pass

        threading.Thread(target=quiet, daemon=True).start()

    def events(self, session, key=None, idle=1.0):
        """All events of a session so far: the stream is read until nothing comes for a moment."""
        events, text = [], b""
        path = f"/v1/sessions/{session}/events"
        try:
            response = self.send("GET", path, accept="text/event-stream", key=key, timeout=idle)
            while line := response.readline():
                text += line
        except TimeoutError:
            pass
        for frame in text.decode().split("\n\n"):
            fields = dict(it.split(": ", 1) for it in frame.splitlines() if ": " in it and not it.startswith(":"))
            if "id" in fields and "data" in fields:
                events.append({"id": int(fields["id"]), "data": json.loads(fields["data"])})
        return events

    def streams_text(self, session, key=None):
        """Waits until the whole text that the model says before it falls silent is stored."""

        def said():
            return "".join(it["data"].get("text", "") for it in self.events(session, key, idle=0.3)
                           if it["data"]["type"] == "text.delta").endswith("time")

        until(f"text in {session}", said)


# --- The content -----------------------------------------------------------------------------------------------------


def without_keys(it, facts):
    """A server that needs no keys, which stops properly."""
    it.serve()
    it.session("demo")
    it.turn("demo", "My name is Ada.")
    it.turn("demo", "What is my name?")
    it.turn("demo", "Where is order 7?", prompt="shop")
    it.turn("demo", "Thank you.", once="request-1")
    assert it.turn("demo", "Thank you.", once="request-1")["ended"] == "replayed"
    paid = it.turn("demo", "Pay order 7 back.", prompt="shop")["approvals"][0]
    it.post(f"/v1/approvals/{paid['id']}", {"token": paid["token"], "verdict": "approve"})
    it.turn("demo", "Please break.", expect=(400, 422, 502))
    it.turn("demo", "Goodbye.")

    # Isolated threads, one of them with everything that can be set, and one that is gone.
    check = it.post("/v1/sessions/demo/threads", {"label": "check", "inherit_history": True})["id"]
    it.turn("demo", "Is the customer angry?", thread=check)
    notes = it.post("/v1/sessions/demo/threads", {"label": "notes", "system_instructions": "Answer yes or no."})["id"]
    at = "/v1/threads/" + urllib.parse.quote(notes, safe="")
    it.post(f"{at}/messages", {"messages": [{"role": "user", "content": "The parcel was found."}]}, once="note-1")
    it.ask("PUT", f"{at}/model", {"model": "mock/m-1"})
    it.ask("POST", f"{at}/reset")
    it.turn("demo", "Was it found?", thread=notes)
    gone = it.post("/v1/sessions/demo/threads", {"label": "gone"})["id"]
    it.ask("DELETE", "/v1/threads/" + urllib.parse.quote(gone, safe=""), expect=(204,))

    # A fork, as a turn makes it beside a running one, and as the command line makes it.
    it.session("forked")
    it.turn("forked", "Good morning.")
    it.aside(lambda: it.turn("forked", "Tell me slowly."))
    until("a running turn", lambda: it.get("/v1/sessions/forked")["turns"] == 2)
    fork = it.turn("forked", "Tell me now.", policy="fork")["thread"]
    assert fork != "forked"
    until("the end of the turn", lambda: [e for e in it.events("forked", idle=0.3)
                                          if e["data"]["type"] == "turn.end" and e["data"]["turn"] == "t2"
                                          and e["data"]["thread"] == "forked"])
    it.cli("sessions", "fork", "demo", "--at", "t2", "--as", "demo-copy", "--label", "a copy")

    for name in ["long", "undone"]:
        it.session(name)
        for n in range(1, 7):
            said = [{"role": "user", "content": f"Where is order {n}?"},
                    {"role": "assistant", "content": f"Order {n}: " + WORDS.format(n=n)}]
            it.post(f"/v1/threads/{name}/messages", {"messages": said})
        report = it.post(f"/v1/sessions/{name}/compact", {"prompt": "chat"})
        assert report["archive"] == "a1" and report["made"] == "summary", report
        it.turn(name, "And now?")
    it.ask("POST", "/v1/sessions/undone/compactions/1/undo")

    it.session("large")
    it.turn("large", "A long text: " + "It goes on and on. " * 440)

    it.session("cancelled")
    it.aside(lambda: it.turn("cancelled", "Tell me a story."))
    it.streams_text("cancelled")
    it.ask("POST", "/v1/sessions/cancelled/turns/t1/cancel")
    until("the end", lambda: [e for e in it.events("cancelled", idle=0.3) if e["data"]["type"] == "turn.end"])

    it.post("/v1/chat/completions", {"model": "chat", "messages": [{"role": "user", "content": "My name is Bob."}]},
            headers=[("x-contexture-session", "chatty")])

    # Turns that wait.
    it.session("ask")
    it.turn("ask", "Hello.")
    waits = it.turn("ask", "Pay order 7 back.", prompt="shop")["approvals"][0]
    facts["approval"] = {"id": waits["id"], "token": waits["token"]}
    it.session("screen")
    look = {"name": "look", "description": "Looks at the screen.", "parameters": {"type": "object"}}
    turn = it.turn("screen", "What is on my screen?", client_tools=[look])
    facts["client_call"] = {"session": "screen", "turn": turn["turn"], "call": turn["client_calls"][0]["id"]}

    # Runs that are over.
    runs = facts["runs"]
    done = it.run("letter", "office", once="start-1", to="Ada")["run"]
    it.answer(done, "topic.1", "Thank her for the parcel.")
    until("check.1", lambda: [w for w in it.get(f"/v1/runs/{done}")["waits"] if w["id"] == "check.1"])
    it.answer(done, "check.1", True)
    until("the end", lambda: it.get(f"/v1/runs/{done}")["status"] == "completed")
    runs["completed"] = done
    runs["cached"] = it.run("cached", "office", text="What is a parcel?")["run"]
    runs["cached_again"] = it.run("cached", "office", text="What is a parcel?")["run"]
    runs["failed"] = it.run("answer", "office", once="start-2", text="Please break.")["run"]
    runs["cancelled"] = it.run("letter", "office", to="Bob")["run"]
    it.ask("DELETE", f"/v1/runs/{runs['cancelled']}")
    until("the end", lambda: it.get(f"/v1/runs/{runs['cancelled']}")["status"] == "cancelled")

    # Runs that wait.
    runs["waiting"] = it.run("letter", "waiting", once="start-3", to="Cleo")["run"]
    runs["waiting_for_approval"] = it.run("answer", "waiting-approval", text="Pay order 7 back.")["run"]

    it.session("gone")
    it.turn("gone", "Hello.")
    it.run("answer", "gone", once="start-gone", text="Hello.")
    it.ask("DELETE", "/v1/sessions/gone", expect=(204,))
    it.stop()


def with_keys(it, facts):
    """Keys, another tenant, and a server that is lost in a turn."""
    made = {
        "admin": it.cli("keys", "create", "--label", "the administrator", "--admin"),
        "acme": it.cli("keys", "create", "--tenant", "acme", "--label", "the app", "--requests-per-minute", "6000",
                       "--concurrent", "20"),
        "revoked": it.cli("keys", "create", "--tenant", "acme", "--label", "a former app"),
    }
    it.cli("keys", "revoke", made["revoked"]["id"])
    facts["keys"] = {name: {"id": key["id"], "key": key["token"]} for name, key in made.items()}
    it.key, acme = made["admin"]["token"], made["acme"]["token"]
    it.serve()
    it.session("demo", key=acme)
    it.turn("demo", "We are Acme.", key=acme)
    it.turn("demo", "Thank you.", once="request-1", key=acme)
    # The same start key as in the other tenant.
    facts["runs"]["acme_completed"] = it.run("answer", "office", once="start-1", key=acme, text="Hello.")["run"]
    facts["runs"]["acme_waiting"] = it.run("letter", "waiting", key=acme, to="Dora")["run"]
    it.session("lost")
    it.turn("lost", "Hello.")
    it.aside(lambda: it.turn("lost", "Tell me a story."))
    it.streams_text("lost")
    it.kill()


def unfinished(it, facts):
    """A server with one slot for runs, which is to be killed: what it has begun, and what waits for the slot."""
    acme, runs = facts["keys"]["acme"]["key"], facts["runs"]
    it.serve(max_flow_runs=1)
    # It reports the end of the lost turn.
    until("the lost turn is closed", lambda: [e for e in it.events("lost", idle=0.3)
                                              if e["data"]["type"] == "turn.end" and e["data"]["turn"] == "t2"])
    runs["answered"] = it.run("letter", "answered", to="Emil")["run"]
    runs["cancelling"] = it.run("letter", "cancelling", to="Fred")["run"]
    runs["driven"] = it.run("answer", "driven", once="start-4", wait=False, text="Tell me a story.")["run"]
    it.streams_text("driven")
    it.answer(runs["answered"], "topic.1", "Thank him for the letter.")
    it.ask("DELETE", f"/v1/runs/{runs['cancelling']}")
    runs["queued"] = it.run("answer", "queued", once="start-5", wait=False, text="Hello.")["run"]
    for session, key in [("flight", None), ("flight", acme)]:
        it.session(session, key=key)
        it.turn(session, "Hello.", key=key)
        it.aside(lambda: it.turn(session, "Tell me a story.", once="request-9", key=key))
        it.streams_text(session, key)
    time.sleep(1)  # the audit log is written aside


# --- The answers -----------------------------------------------------------------------------------------------------


def pages(it, path, name, at, key):
    """All elements of a list that comes in pages."""
    found, page = [], it.get(path, key=key)
    while True:
        found += page[name]
        if page.get(at) is None or not page[name]:
            return found
        page = it.get(f"{path}{'&' if '?' in path else '?'}{at}={urllib.parse.quote(str(page[at]))}", key=key)


def answers(it, facts):
    tenants = {}
    for tenant, key in [("default", "admin"), ("acme", "acme")]:
        key = facts["keys"][key]["key"]
        sessions = {}
        for name in [s["id"] for s in pages(it, "/v1/sessions", "sessions", "after", key)]:
            at = f"/v1/sessions/{name}"
            session = it.get(at, key=key)
            threads = {}
            for thread in [t["id"] for t in session["threads"]]:
                of = "thread=" + urllib.parse.quote(thread, safe="")
                items = []
                page = it.get(f"{at}/items?view=all&{of}", key=key)
                while True:
                    items = page["items"] + items
                    if not page.get("before"):
                        break
                    page = it.get(f"{at}/items?view=all&{of}&before={page['before']}", key=key)
                history = it.get(f"{at}/items?view=history&{of}", key=key)["items"]
                archives = it.get(f"{at}/archives?{of}", key=key)
                threads[thread] = {"items": items, "history": history, "archives": archives["archives"]}
            passes = pages(it, f"{at}/passes", "passes", "before", key)
            for n, listed in enumerate(passes):
                one = f"/v1/passes/{urllib.parse.quote(listed['id'], safe='')}"
                shown = it.get(one, key=key)
                assert {k: shown[k] for k in listed} == listed
                body = it.send("GET", f"{one}/body", key=key).read()
                passes[n] = {**shown, "body": {"bytes": len(body), "sha256": hashlib.sha256(body).hexdigest()}}
            approvals = it.get(f"{at}/approvals", key=key)
            sessions[name] = {"session": session, "threads": threads, "passes": passes, "approvals": approvals,
                              "events": it.events(name, key)}
        listed = pages(it, "/v1/runs", "runs", "after", key)
        runs = {}
        for run in [r["run"] for r in listed]:
            info = it.get(f"/v1/runs/{run}", key=key)
            runs[run] = {"run": info, "events": it.get(f"/v1/runs/{run}/events?limit=1000", key=key)["events"]}
        tenants[tenant] = {"sessions": sessions, "runs": runs, "run_list": [r["run"] for r in listed]}
    return {
        "facts": facts,
        "keys": it.cli("keys", "list"),
        "audit": pages(it, "/v1/audit", "acts", "before", None),
        "tenants": tenants,
    }


def write(path, document):
    """Writes JSON with one line for each item, pass, event and so on."""

    def lines(value, depth, indent):
        if depth == 0 or not isinstance(value, (dict, list)) or not value:
            return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        inner = indent + " "
        if isinstance(value, dict):
            parts = [f"{json.dumps(k)}: {lines(v, depth - 1, inner)}" for k, v in value.items()]
            return "{\n" + ",\n".join(inner + it for it in parts) + f"\n{indent}}}"
        return "[\n" + ",\n".join(inner + lines(it, depth - 1, inner) for it in value) + f"\n{indent}]"

    path.write_text(lines(document, 8, "") + "\n")


def make(binary, model, store):
    facts = {"runs": {}}
    with tempfile.TemporaryDirectory() as folder:
        project = f"{folder}/project"
        shutil.copytree(HERE / "project", project)
        for path in filter(Path.is_file, Path(project).rglob("*")):
            path.write_text(path.read_text().replace(PLACEHOLDER, model))
        it = Program(binary, project, store)
        try:
            without_keys(it, facts)
            with_keys(it, facts)
            unfinished(it, facts)
            return answers(it, facts)
        finally:
            it.kill()


def tabled(found):
    """The ids that nobody chose, for README.md."""
    facts = found["facts"]
    rows = [(f"key `{name}`", it["key"]) for name, it in facts["keys"].items()]
    rows += [("approval", facts["approval"]["id"]), ("its token", facts["approval"]["token"])]
    for name, run in facts["runs"].items():
        tenant = "acme" if name.startswith("acme") else "default"
        waits = [it["id"] for it in found["tenants"][tenant]["runs"][run]["run"]["waits"]]
        rows.append((f"run `{name}`", run))
        rows += [("its wait", wait) for wait in waits]
    return rows


def main():
    binary = str(Path(sys.argv[1]).resolve())
    server = ModelServer(("127.0.0.1", 0), Model)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    model = f"http://127.0.0.1:{server.server_address[1]}"

    with tempfile.TemporaryDirectory() as folder:
        database = f"{folder}/legacy.db"
        lite = make(binary, model, f"sqlite:{database}")
        with sqlite3.connect(database) as connection:
            connection.isolation_level = None
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            connection.execute("VACUUM")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.close()
        shutil.copyfile(database, HERE / "legacy.db")
    write(HERE / "legacy.json", lite)

    with Postgres() as postgres:
        found = make(binary, model, postgres.url())
        (HERE / "legacy.sql").write_text(postgres.dump())
    write(HERE / "legacy-postgres.json", found)

    rows = [f"| {what} | `{a}` | `{b}` |" for (what, a), (_, b) in zip(tabled(lite), tabled(found), strict=True)]
    table = "\n".join(["| | `legacy.db` | `legacy.sql` |", "|---|---|---|", *rows])
    readme = HERE / "README.md"
    if readme.exists():
        before = readme.read_text().split("<!-- ids -->")[0]
        readme.write_text(f"{before}<!-- ids -->\n\n{table}\n")


if __name__ == "__main__":
    main()
