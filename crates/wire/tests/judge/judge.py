"""Checks that the golden requests are what the official SDKs call a request, and the golden answers what they can read.

The request types of the SDKs `openai`, `anthropic` and `google-genai` are turned into JSON Schemas in which objects allow
no other fields, and every `golden/DIALECT/*.json` is held against the schema of its dialect. Free-form values, such as the
parameters of a tool, stay free. Every `golden/DIALECT/answers/*` is held against the types of answers and of the events of a
stream; these may have more fields than the SDK knows. Prints what was checked, and the path of each refused field; exits 1 if there is one.

    judge.py [--self-test] [DIALECT ...]

`--self-test` damages every golden request at every place, one at a time, and expects each to be refused.
"""

import copy
import json
import pathlib
import sys

import jsonschema
from pydantic import TypeAdapter, ValidationError

GOLDEN = pathlib.Path(__file__).parent.parent / "golden"

# Objects under these names hold whatever the author wrote.
FREE = {
    "args", "input", "input_schema", "metadata", "parameters", "parametersJsonSchema", "response",
    "responseJsonSchema", "responseSchema", "schema",
}


def closed(schema):
    """Returns the schema with every object that names its properties closed to others."""
    if isinstance(schema, list):
        return [closed(it) for it in schema]
    if not isinstance(schema, dict):
        return schema
    schema = {name: closed(value) for name, value in schema.items()}
    if schema.get("type") == "object" and isinstance(schema.get("properties"), dict):
        schema["additionalProperties"] = False
    return schema


class BySchema:
    """Holds a body against the schema of one type."""

    def __init__(self, kind, required=(), more=None):
        schema = closed(TypeAdapter(kind).json_schema())
        if more:
            schema["properties"].update(more)
        schema["required"] = sorted({*schema.get("required", []), *required})
        self.validator = jsonschema.Draft202012Validator(schema)

    def refusals(self, body, path="$"):
        for error in self.validator.iter_errors(body):
            found = deepest(error)
            yield path + "".join(step(it) for it in found.absolute_path) + ": " + short(found.message)


class ByParts:
    """Holds each field of a body against a type of its own; other fields are refused."""

    def __init__(self, fields, required):
        self.required = required
        self.fields = {name: (many, kind, BySchema(kind)) for name, (many, kind) in fields.items()}

    def refusals(self, body, path="$"):
        for name in self.required:
            if name not in body:
                yield f"{path}: '{name}' is missing"
        for name, value in body.items():
            if name not in self.fields:
                yield f"{path}.{name}: unknown field"
                continue
            many, kind, schema = self.fields[name]
            if many and not isinstance(value, list):
                yield f"{path}.{name}: expected a list"
                continue
            for idx, item in enumerate(value if many else [value]):
                at = f"{path}.{name}[{idx}]" if many else f"{path}.{name}"
                yield from schema.refusals(item, at)
                try:
                    TypeAdapter(kind).validate_json(json.dumps(item))
                except ValidationError as error:
                    for it in error.errors():
                        yield at + "".join(step(place) for place in it["loc"]) + ": " + short(it["msg"])


def step(place):
    return f"[{place}]" if isinstance(place, int) else f".{place}"


def short(text):
    return text if len(text) < 200 else text[:200] + "…"


def deepest(error):
    """Descends into the branch of a choice that came closest: the one that failed furthest down."""
    while error.context:
        error = max(error.context, key=lambda it: (len(it.absolute_path), it.validator != "const"))
    return error


def openai():
    from openai.types.chat import completion_create_params as params

    plain = BySchema(params.CompletionCreateParamsNonStreaming)
    streaming = BySchema(params.CompletionCreateParamsStreaming)
    return lambda body: (streaming if body.get("stream") else plain).refusals(body)


def responses():
    from openai.types.responses import response_create_params as params

    plain = BySchema(params.ResponseCreateParamsNonStreaming, ["model", "input"])
    streaming = BySchema(params.ResponseCreateParamsStreaming, ["model", "input"])
    return lambda body: (streaming if body.get("stream") else plain).refusals(body)


def anthropic():
    from anthropic.types import message_create_params as params

    # SDKs since 1.0 have no parameters for sampling. Version 2023-06-01 of the API takes these fields from models that
    # sample, and the SDKs send them as `extra_body`; version 2026-10-21 refuses them.
    sampling = {"temperature": {"type": "number"}, "top_p": {"type": "number"}, "top_k": {"type": "integer"}}
    plain = BySchema(params.MessageCreateParamsNonStreaming, more=sampling)
    streaming = BySchema(params.MessageCreateParamsStreaming, more=sampling)
    return lambda body: (streaming if body.get("stream") else plain).refusals(body)


def gemini():
    from google.genai import types

    fields = {
        "contents": (True, types.Content),
        "systemInstruction": (False, types.Content),
        "tools": (True, types.Tool),
        "toolConfig": (False, types.ToolConfig),
        "generationConfig": (False, types.GenerationConfig),
        "safetySettings": (True, types.SafetySetting),
        "cachedContent": (False, str),
        "labels": (False, dict[str, str]),
    }
    parts = ByParts(fields, ["contents"])

    def refusals(body):
        yield from parts.refusals(body)
        # The SDK takes any word for a role, the service does not.
        for idx, content in enumerate(body.get("contents", [])):
            if content.get("role") not in ("user", "model"):
                yield f"$.contents[{idx}].role: neither 'user' nor 'model'"

    return refusals


JUDGES = {"openai": openai, "openai-responses": responses, "anthropic": anthropic, "gemini": gemini}


def openai_answers():
    from openai.types.chat import ChatCompletion, ChatCompletionChunk

    return TypeAdapter(ChatCompletion), TypeAdapter(ChatCompletionChunk)


def responses_answers():
    from openai.types.responses import Response, ResponseStreamEvent

    return TypeAdapter(Response), TypeAdapter(ResponseStreamEvent)


def anthropic_answers():
    from anthropic.types import Message, RawMessageStreamEvent

    return TypeAdapter(Message), TypeAdapter(RawMessageStreamEvent)


def gemini_answers():
    from google.genai import types

    return TypeAdapter(types.GenerateContentResponse), TypeAdapter(types.GenerateContentResponse)


ANSWERS = {
    "openai": openai_answers,
    "openai-responses": responses_answers,
    "anthropic": anthropic_answers,
    "gemini": gemini_answers,
}


def answer_refusals(dialect):
    """Yields a path and what is refused there, or None, for each golden answer and each event of its stream."""
    paths = sorted((GOLDEN / dialect / "answers").glob("*.*"))
    whole, event = ANSWERS[dialect]() if paths else (None, None)
    for path in paths:
        if path.suffix == ".json":
            yield f"{dialect}/answers/{path.name}", refusal(whole, path.read_text())
        if path.suffix == ".sse":
            lines = [it[6:] for it in path.read_text().splitlines() if it.startswith("data: ")]
            for idx, line in enumerate(it for it in lines if it != "[DONE]"):
                yield f"{dialect}/answers/{path.name} event {idx}", refusal(event, line)


def refusal(kind, text):
    try:
        kind.validate_json(text)
    except ValidationError as error:
        # Of a choice of types, the one that came closest.
        errors = max(error.errors(), key=lambda it: len(it["loc"]))
        return "".join(step(place) for place in errors["loc"]) + ": " + short(errors["msg"])


def damages(value, path="$"):
    """Yields a name and a function that damages a copy of the value, for every place that is not free."""
    if isinstance(value, list):
        for idx, item in enumerate(value):
            yield from below(idx, damages(item, f"{path}[{idx}]"))
    if not isinstance(value, dict):
        return
    yield f"{path} has an unknown field", lambda it: it.update(damaged=True)
    for name, item in value.items():
        if name in FREE and isinstance(item, dict):
            continue
        if name in ("type", "role") and isinstance(item, str):
            yield f"{path}.{name} is another word", lambda it, name=name: it.update({name: "damaged"})
        yield f"{path}.{name} is renamed", lambda it, name=name: it.update({name + "Damaged": it.pop(name)})
        yield from below(name, damages(item, f"{path}.{name}"))


def below(place, inner):
    for name, damage in inner:
        yield name, lambda it, damage=damage: damage(it[place])


def self_test(name, judge, body):
    """Returns how many damages were refused, and which were not."""
    n_refused, missed = 0, []
    for what, damage in damages(body):
        damaged = copy.deepcopy(body)
        damage(damaged)
        if any(True for _ in judge(damaged)):
            n_refused += 1
        else:
            missed.append(f"{name}: {what}: not refused")
    return n_refused, missed


def main(args):
    testing = "--self-test" in args
    wanted = [it for it in args if it != "--self-test"] or list(JUDGES)
    refused, n_checked = [], 0
    for dialect in wanted:
        goldens = sorted((GOLDEN / dialect).glob("*.json"))
        if not goldens:
            print(f"{dialect}: no golden requests")
            continue
        judge, n_refused = JUDGES[dialect](), 0
        for path in goldens:
            name, body = f"{dialect}/{path.name}", json.loads(path.read_text())
            refused += [f"{name}: {it}" for it in judge(body)]
            if testing:
                n_damages, missed = self_test(name, judge, body)
                n_refused += n_damages
                refused += missed
        n_checked += len(goldens)
        answers = list(answer_refusals(dialect))
        refused += [f"{at}: {reason}" for at, reason in answers if reason]
        print(f"{dialect}: {len(answers)} answers and events checked")
        print(f"{dialect}: {len(goldens)} requests checked" + (f", {n_refused} damages refused" if testing else ""))
    for line in refused:
        print(line)
    return 1 if refused or not n_checked else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
