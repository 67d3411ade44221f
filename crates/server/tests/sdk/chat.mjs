// OpenAI's own Node client, unmodified, against the server: `chat.mjs URL SCENARIO`, run in the folder that has the package.
// Each scenario is a function; the model behind the server follows the script of the test that runs this.

import assert from "node:assert/strict";
import { createRequire } from "node:module";

const [, , folder, url, scenario] = process.argv;
const OpenAI = createRequire(folder + "/")("openai");

const WEATHER = {
  type: "function",
  function: {
    name: "weather",
    description: "Tells the weather.",
    parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
  },
};

const client = (apiKey = "good", headers = {}) =>
  new OpenAI({ baseURL: url + "/v1", apiKey, maxRetries: 0, defaultHeaders: headers });
const kept = () => client("good", { "x-contexture-session": "s" });
const user = (content) => ({ role: "user", content });

const scenarios = {
  async chat() {
    const answer = await client().chat.completions.create({ model: "chat", messages: [user("hi")] });
    assert.equal(answer.choices[0].message.content, "Hello.");
    assert.equal(answer.choices[0].finish_reason, "stop");
    assert.equal(answer.usage.prompt_tokens_details.cached_tokens, 4);
    const models = [];
    for await (const model of client().models.list()) models.push(model.id);
    assert.deepEqual(models, ["chat", "mock/mock-1"]);
    assert.equal((await client().models.retrieve("chat")).owned_by, "contexture");
    assert.equal((await client().models.retrieve("mock/mock-1")).owned_by, "mock");
  },

  async stream() {
    const ask = { model: "mock/mock-1", messages: [user("hi")], stream: true, stream_options: { include_usage: true } };
    let [said, usage] = ["", null];
    for await (const chunk of await kept().chat.completions.create(ask)) {
      said += chunk.choices[0]?.delta?.content ?? "";
      usage = chunk.usage ?? usage;
    }
    assert.equal(said, "Hello there.");
    assert.equal(usage.total_tokens, 12);
    const events = kept().chat.completions.stream({ model: "mock/mock-1", messages: [user("more")] });
    assert.equal(await events.finalContent(), "More.");
  },

  async tools() {
    const messages = [user("How is the weather in Rome?")];
    const answer = await kept().chat.completions.create({ model: "chat", messages, tools: [WEATHER] });
    const { message, finish_reason } = answer.choices[0];
    assert.equal(finish_reason, "tool_calls");
    assert.deepEqual(message.tool_calls.map((it) => it.function.name), ["weather", "weather"]);
    messages.push(message);
    for (const call of message.tool_calls) messages.push({ role: "tool", tool_call_id: call.id, content: "It rains." });
    const events = kept().chat.completions.stream({ model: "chat", messages, tools: [WEATHER] });
    assert.equal(await events.finalContent(), "It rains in Rome.");
    messages.push(await events.finalMessage(), user("And in Oslo?"));
    const more = kept().chat.completions.stream({ model: "chat", messages, tools: [WEATHER] });
    const last = await more.finalMessage();
    assert.deepEqual(last.tool_calls.map((it) => it.function.arguments), ['{"city":"Oslo"}']);
  },

  async history() {
    const messages = [{ role: "system", content: "Be brief." }];
    const ask = async (messages) =>
      (await client().chat.completions.create({ model: "chat", messages, user: "ann" })).choices[0].message;
    for (let n = 0; n < 3; n++) {
      messages.push(user(`question ${n}`));
      const message = await ask(messages);
      assert.equal(message.content, `answer ${n}`);
      messages.push(message);
    }
    assert.equal((await ask(messages.slice(0, -1))).content, "answer 3");
    assert.equal((await ask([...messages.slice(0, 3), user("another question")])).content, "answer 4");
  },

  async errors() {
    const ask = { model: "chat", messages: [user("hi")] };
    const fails = async (kind, code, param, more = {}, key = "good") => {
      for (const stream of [false, true]) {
        const is = (err) => err.constructor === kind && err.code === code && (err.param ?? undefined) === param;
        await assert.rejects(client(key).chat.completions.create({ ...ask, ...more, stream }), is);
      }
    };
    await fails(OpenAI.AuthenticationError, "invalid_api_key", undefined, {}, "bad");
    await fails(OpenAI.NotFoundError, "model_not_found", "model", { model: "none" });
    await fails(OpenAI.BadRequestError, "unsupported_parameter", "n", { n: 2 });
    await fails(OpenAI.BadRequestError, "unsupported_parameter", "logprobs", { logprobs: true });
    await fails(OpenAI.RateLimitError, "rate_limit_exceeded");
    await fails(OpenAI.BadRequestError, "context_length_exceeded");
    await fails(OpenAI.InternalServerError, "model_overloaded");
    const cut = await client().chat.completions.create({ ...ask, stream: true });
    const read = async () => { for await (const _ of cut); };
    await assert.rejects(read(), (err) => err instanceof OpenAI.APIError && err.code === "model_unreachable");
  },

  async abort() {
    const controller = new AbortController();
    const ask = { model: "chat", messages: [user("hi")], stream: true };
    const events = await kept().chat.completions.create(ask, { signal: controller.signal });
    for await (const chunk of events) {
      assert.equal(chunk.choices[0].delta.content, "Once upon a time");
      controller.abort();
    }
  },
};

await scenarios[scenario]();
