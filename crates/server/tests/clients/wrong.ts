// What must not type-check, each line with the error that the compiler gives.
import createClient from "openapi-fetch";
import type { components, paths } from "./api.js";

const client = createClient<paths>({ baseUrl: "" });
const params = { path: { id: "demo" } };
// @ts-expect-error: an unknown field; `openapi-fetch` infers the type of a body and misses it without a declared one
const body: components["schemas"]["TurnRequest"] = { usr: "hi" };
await client.POST("/v1/sessions/{id}/turns", { params, body });
// @ts-expect-error: a wrong type
await client.POST("/v1/sessions/{id}/turns", { params, body: { user: 7 } });
// @ts-expect-error: a part that users do not say
await client.POST("/v1/sessions/{id}/turns", { params, body: { user: [{ type: "tool_call", id: "a", name: "b" }] } });
// @ts-expect-error: an unknown policy
await client.POST("/v1/sessions/{id}/turns", { params, body: { user: "hi", policy: "hurry" } });
// @ts-expect-error: a required field is missing
await client.POST("/v1/approvals/{id}", { params, body: { verdict: "approve" } });
// @ts-expect-error: an unknown event
export const event: components["schemas"]["TurnEvent"] = { type: "text.detla", text: "hi" };
// @ts-expect-error: a field of another event
export const end: components["schemas"]["TurnEvent"] = { type: "text.delta", status: "completed" };
