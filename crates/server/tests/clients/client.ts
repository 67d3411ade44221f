// Uses the client that `openapi-typescript` and `openapi-fetch` generate: `client.js URL`.
import createClient from "openapi-fetch";
import type { components, paths } from "./api.js";

declare const process: { argv: string[] };
type TurnEvent = components["schemas"]["TurnEvent"];

function check(holds: boolean, what: unknown): asserts holds {
  if (!holds) throw new Error(JSON.stringify(what));
}

/** Returns the text of an event. */
function text(event: TurnEvent): string {
  switch (event.type) {
    case "text.delta":
      return event.text;
    case "turn.end":
      return ` (${event.status}, ${event.usage.output_tokens} tokens)`;
    default:
      return "";
  }
}

const client = createClient<paths>({ baseUrl: process.argv[2] });
const created = await client.POST("/v1/sessions", { body: { id: "demo" } });
check(created.data?.id === "demo", created);
await client.POST("/v1/sessions", {});

const params = { path: { id: "demo" } };
const turn = await client.POST("/v1/sessions/{id}/turns", { params, body: { user: "hi" } });
check(turn.data?.status === "completed" && turn.data.text === "Hello.", turn);

const body = { user: [{ type: "text" as const, text: "hi" }], settings: { temperature: 0.2 } };
const streamed = await client.POST("/v1/sessions/{id}/turns/stream", { params, body, parseAs: "text" });
const frames = String(streamed.data).trim().split("\n\n");
const events = frames.map((it): TurnEvent => JSON.parse(it.slice(it.indexOf("data: ") + 6)));
check(events.map(text).join("") === "Hello again. (completed, 0 tokens)", events);

const items = await client.GET("/v1/sessions/{id}/items", { params: { ...params, query: { view: "all", limit: 1000 } } });
const kinds = items.data?.items.map((it) => ("kind" in it ? it.kind : it.turn));
check(kinds !== undefined && kinds.includes("user") && kinds.includes("turn_ended"), kinds);

const missing = await client.GET("/v1/sessions/{id}", { params: { path: { id: "nothing" } } });
check(missing.error?.code === "not_found", missing);
