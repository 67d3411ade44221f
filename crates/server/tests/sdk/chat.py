"""OpenAI's own Python client, unmodified, against the server: `chat.py URL SCENARIO`.

Each scenario is a function; the model behind the server follows the script of the test that runs this.
"""

import sys

import openai

URL = sys.argv[1] + "/v1"
WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "Tells the weather.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}


def client(key="good", **options):
    return openai.OpenAI(base_url=URL, api_key=key, max_retries=0, **options)


def chat():
    answer = client().chat.completions.create(
        model="chat", messages=[{"role": "user", "content": "hi"}], temperature=0.5, max_completion_tokens=100
    )
    assert answer.object == "chat.completion" and answer.id.startswith("chatcmpl-") and answer.created > 0
    assert answer.model == "chat", answer
    choice = answer.choices[0]
    assert (choice.message.role, choice.message.content, choice.finish_reason) == ("assistant", "Hello.", "stop")
    assert answer.usage.prompt_tokens == 10 and answer.usage.completion_tokens == 2, answer.usage
    assert answer.usage.prompt_tokens_details.cached_tokens == 4, answer.usage
    assert answer._request_id, answer
    assert [it.id for it in client().models.list()] == ["chat", "mock/mock-1"]
    assert client().models.retrieve("chat").owned_by == "contexture"
    assert client().models.retrieve("mock/mock-1").owned_by == "mock"


def stream():
    kept = client(default_headers={"x-contexture-session": "s"})
    said, usage, finish = "", None, None
    messages = [{"role": "user", "content": "hi"}]
    options = {"include_usage": True}
    for chunk in kept.chat.completions.create(model="mock/mock-1", messages=messages, stream=True, stream_options=options):
        assert chunk.object == "chat.completion.chunk" and chunk.model == "mock/mock-1", chunk
        for choice in chunk.choices:
            said += choice.delta.content or ""
            finish = choice.finish_reason or finish
        usage = chunk.usage or usage
    assert (said, finish) == ("Hello there.", "stop"), (said, finish)
    assert usage.total_tokens == 12, usage
    # The client's helper puts the chunks together itself.
    with kept.chat.completions.stream(model="mock/mock-1", messages=messages[:0] + [{"role": "user", "content": "more"}]) as events:
        final = events.get_final_completion()
    assert final.choices[0].message.content == "More.", final


def tools():
    kept = client(default_headers={"x-contexture-session": "s"})
    messages = [{"role": "user", "content": "How is the weather in Rome?"}]
    answer = kept.chat.completions.create(model="chat", messages=messages, tools=[WEATHER])
    message = answer.choices[0].message
    assert answer.choices[0].finish_reason == "tool_calls", answer
    assert [it.function.name for it in message.tool_calls] == ["weather", "weather"], message
    assert message.tool_calls[0].function.arguments == '{"city":"Rome"}', message
    messages.append(message)
    for call in message.tool_calls:
        messages.append({"role": "tool", "tool_call_id": call.id, "content": "It rains."})
    # Streamed this time.
    said = ""
    with kept.chat.completions.stream(model="chat", messages=messages, tools=[WEATHER]) as events:
        for event in events:
            if event.type == "content.delta":
                said += event.delta
        final = events.get_final_completion()
    assert said == final.choices[0].message.content == "It rains in Rome.", said
    # Calls in a stream.
    messages += [final.choices[0].message, {"role": "user", "content": "And in Oslo?"}]
    with kept.chat.completions.stream(model="chat", messages=messages, tools=[WEATHER]) as events:
        call = events.get_final_completion().choices[0].message.tool_calls[0]
    assert (call.function.name, call.function.parsed_arguments or call.function.arguments) == ("weather", '{"city":"Oslo"}'), call


def history():
    kept = client()
    messages = [{"role": "system", "content": "Be brief."}]
    for n in range(3):
        messages.append({"role": "user", "content": f"question {n}"})
        answer = kept.chat.completions.create(model="chat", messages=messages, user="ann")
        assert answer.choices[0].message.content == f"answer {n}", answer
        messages.append(answer.choices[0].message)
    # The last answer again, and then an edited question.
    again = kept.chat.completions.create(model="chat", messages=messages[:-1], user="ann")
    assert again.choices[0].message.content == "answer 3", again
    edited = messages[:3] + [{"role": "user", "content": "another question"}]
    answer = kept.chat.completions.create(model="chat", messages=edited, user="ann")
    assert answer.choices[0].message.content == "answer 4", answer


def errors():
    ask = dict(model="chat", messages=[{"role": "user", "content": "hi"}])

    def fails(kind, code, param=None, key="good", **more):
        for stream in (False, True):
            try:
                client(key).chat.completions.create(**{**ask, **more, "stream": stream})
            except kind as err:
                assert type(err) is kind and (err.code, err.param) == (code, param), (err, err.code, err.param)
            else:
                raise AssertionError(f"{kind} was expected")

    fails(openai.AuthenticationError, "invalid_api_key", key="bad")
    fails(openai.NotFoundError, "model_not_found", "model", model="none")
    fails(openai.BadRequestError, "unsupported_parameter", "n", n=2)
    fails(openai.BadRequestError, "unsupported_parameter", "logprobs", logprobs=True)
    fails(openai.RateLimitError, "rate_limit_exceeded")
    fails(openai.BadRequestError, "context_length_exceeded")
    fails(openai.InternalServerError, "model_overloaded")
    # What breaks after the first words is told in the stream.
    try:
        for _ in client().chat.completions.create(**ask, stream=True):
            pass
    except openai.APIError as err:
        assert err.code == "model_unreachable", err.code
    else:
        raise AssertionError("the stream was cut")


def abort():
    kept = client(default_headers={"x-contexture-session": "s"})
    events = kept.chat.completions.create(model="chat", messages=[{"role": "user", "content": "hi"}], stream=True)
    first = next(iter(events))
    assert first.choices[0].delta.content == "Once upon a time", first
    events.close()


globals()[sys.argv[2]]()
