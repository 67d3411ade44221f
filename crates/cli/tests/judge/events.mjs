// The npm package `eventsource` against the server: `events.mjs FOLDER URL`; the folder has the package.
//
// A proxy stands between them that cuts every connection after a few hundred bytes, so the package must connect again and
// again with the id of the event it heard last. Nothing may be lost, and nothing may come twice.

import assert from "node:assert/strict";
import http from "node:http";
import { createRequire } from "node:module";

const [, , folder, url] = process.argv;
const { EventSource } = createRequire(folder + "/")("eventsource");

const post = async (path, body) => {
  const headers = { "content-type": "application/json" };
  const answer = await fetch(url + path, { method: "POST", headers, body: JSON.stringify(body) });
  assert.ok(answer.ok, await answer.clone().text());
  return answer.json();
};

const KINDS = ["turn.start", "text.delta", "context_usage", "turn.end"];

/** Cuts each connection once so many bytes went through; remembers the ids that clients came back with. */
const cutting = (bytes) => {
  const cameBack = [];
  const server = http.createServer((request, response) => {
    if (request.headers["last-event-id"]) cameBack.push(Number(request.headers["last-event-id"]));
    const onward = http.request(url + request.url, { headers: request.headers }, (answer) => {
      response.writeHead(answer.statusCode, answer.headers);
      let sent = 0;
      answer.on("data", (chunk) => {
        const rest = chunk.subarray(0, bytes - sent);
        sent += rest.length;
        if (sent < bytes) return response.write(rest);
        response.write(rest, () => response.socket.end());
        onward.destroy();
      });
      answer.on("error", () => response.destroy());
    });
    onward.on("error", () => response.destroy());
    onward.end();
  });
  return new Promise((resolve) =>
    server.listen(0, "127.0.0.1", () => resolve({ server, cameBack, url: `http://127.0.0.1:${server.address().port}` })),
  );
};

/** Follows a session until so many turns have ended. */
const follow = (address, turns) =>
  new Promise((resolve) => {
    const heard = [];
    const source = new EventSource(address);
    const hear = (it) => {
      heard.push({ id: it.lastEventId, kind: it.type, data: JSON.parse(it.data) });
      if (heard.filter((it) => it.kind === "turn.end").length === turns) {
        source.close();
        resolve(heard);
      }
    };
    KINDS.forEach((kind) => source.addEventListener(kind, hear));
  });

await post("/v1/sessions", { id: "cut" });
const proxy = await cutting(700);
const following = follow(`${proxy.url}/v1/sessions/cut/events`, 3);
for (const user of ["One", "Two", "Three"]) await post("/v1/sessions/cut/turns", { user });
const heard = await following;
const assembled = (events) => {
  const turns = {};
  for (const { kind, data } of events) {
    const said = (turns[data.turn] ??= { text: "", kinds: [] });
    if (kind === "text.delta") said.text += data.text;
    else if (kind !== "context_usage") said.kinds.push(kind);
  }
  return turns;
};
const whole = assembled(await follow(`${url}/v1/sessions/cut/events`, 3));
assert.deepEqual(assembled(heard), whole, "no event is lost or told twice");
assert.deepEqual(Object.values(whole).map((it) => it.kinds), Array(3).fill(["turn.start", "turn.end"]));
assert.ok(heard.every((it) => it.kind === it.data.type));
assert.ok(proxy.cameBack.length > 0, "it came back with the id that it had heard last");
proxy.server.closeAllConnections();
proxy.server.close();

// Whoever comes for what is next hears nothing of before.
const next = follow(`${url}/v1/sessions/cut/events?after=latest`, 1);
await new Promise((resolve) => setTimeout(resolve, 500));
await post("/v1/sessions/cut/turns", { user: "Four" });
const fourth = await next;
assert.equal(fourth[0].kind, "turn.start");
assert.equal(fourth[0].data.turn, "t4");
process.exit(0);
