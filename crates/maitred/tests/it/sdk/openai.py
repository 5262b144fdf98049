"""What a user of OpenAI's Python SDK does, against the gateway at argv[1] with the key argv[2] and the model argv[3]."""

import asyncio
import json
import sys

import openai
from openai import AsyncOpenAI, OpenAI

base, key, model = sys.argv[1:]
client = OpenAI(base_url=base, api_key=key, max_retries=0, timeout=20)
messages = [{"role": "user", "content": "What is on the menu?"}]
tool = {
    "type": "function",
    "function": {
        "name": "order",
        "description": "Orders a dish.",
        "strict": True,
        "parameters": {
            "type": "object",
            "properties": {"dish": {"type": "string"}, "count": {"type": "integer"}},
            "required": ["dish", "count"],
            "additionalProperties": False,
        },
    },
}
named = {"type": "function", "function": {"name": "order"}}


def chat():
    answer = client.chat.completions.create(model=model, messages=messages, max_tokens=20)
    assert answer.object == "chat.completion" and answer.model == model
    assert answer.choices[0].message.content and answer.choices[0].finish_reason in ("stop", "length")
    assert answer.usage.prompt_tokens > 0 and 0 < answer.usage.completion_tokens <= 20
    assert answer._request_id


def chat_stream():
    stream = client.chat.completions.create(model=model, messages=messages, max_tokens=20, stream=True)
    chunks = list(stream)
    assert all(len(chunk.choices) == 1 for chunk in chunks), "no chunk without choices"
    assert all(chunk.usage is None for chunk in chunks), "no usage that was not asked for"
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    assert text and chunks[-1].choices[0].finish_reason in ("stop", "length")


def chat_stream_with_usage():
    stream = client.chat.completions.create(
        model=model, messages=messages, max_tokens=20, stream=True, stream_options={"include_usage": True}
    )
    chunks = list(stream)
    assert chunks[-1].choices == [] and chunks[-1].usage.completion_tokens > 0
    assert all(chunk.choices for chunk in chunks[:-1])


def check_call(call):
    assert call.function.name == "order"
    arguments = json.loads(call.function.arguments)
    assert isinstance(arguments["dish"], str) and isinstance(arguments["count"], int), arguments


def tools():
    for choice in (named, "required"):
        answer = client.chat.completions.create(model=model, messages=messages, tools=[tool], tool_choice=choice)
        check_call(answer.choices[0].message.tool_calls[0])


def tools_stream():
    for choice in (named, "required"):
        with client.chat.completions.stream(
            model=model, messages=messages, tools=[tool], tool_choice=choice
        ) as stream:
            kinds = [event.type for event in stream]
            answer = stream.get_final_completion()
        assert "tool_calls.function.arguments.delta" in kinds, set(kinds)
        check_call(answer.choices[0].message.tool_calls[0])


def structured():
    schema = {"name": "dish", "strict": True, "schema": tool["function"]["parameters"]}
    answer = client.chat.completions.create(
        model=model, messages=messages, response_format={"type": "json_schema", "json_schema": schema}
    )
    assert set(json.loads(answer.choices[0].message.content)) == {"dish", "count"}


def completions():
    answer = client.completions.create(model=model, prompt="Once upon", max_tokens=8)
    assert answer.choices[0].text and answer.usage.completion_tokens <= 8
    chunks = list(client.completions.create(model=model, prompt="Once upon", max_tokens=8, stream=True))
    assert all(len(chunk.choices) == 1 for chunk in chunks)
    assert "".join(chunk.choices[0].text for chunk in chunks)


def embeddings():
    answer = client.embeddings.create(model=model, input=["one", "two"])
    vectors = [entry.embedding for entry in answer.data]
    assert len(vectors) == 2 and len(vectors[0]) == len(vectors[1]) > 0
    assert all(isinstance(number, float) for number in vectors[0])
    assert answer.usage.prompt_tokens > 0


def models():
    assert [entry.id for entry in client.models.list()] == [model]
    assert client.models.retrieve(model).id == model


def errors():
    def refused(kind, code, **options):
        try:
            client.with_options(**options.pop("options", {})).chat.completions.create(
                **{"model": model, "messages": messages, **options}
            )
        except kind as error:
            assert error.code == code, error.body
            assert error.request_id and error.message
        else:
            raise AssertionError(f"no {kind}")

    refused(openai.NotFoundError, "model_not_found", model="no-such-model")
    refused(openai.AuthenticationError, "invalid_key", options={"api_key": "wrong"})
    refused(openai.BadRequestError, "missing_model", model="")
    refused(openai.BadRequestError, "invalid_field", stream_options=5, stream=True)
    try:
        client.models.retrieve("no-such-model")
    except openai.NotFoundError as error:
        assert error.code == "model_not_found", error.body
    else:
        raise AssertionError("no such model, and no error")


async def many_at_once():
    async with AsyncOpenAI(base_url=base, api_key=key, max_retries=0, timeout=20) as many:

        async def one(number):
            text = f"{number}: what is on the menu?"
            stream = await many.chat.completions.create(
                model=model, messages=[{"role": "user", "content": text}], max_tokens=10, stream=True
            )
            return [chunk async for chunk in stream]

        answers = await asyncio.gather(*(one(number) for number in range(16)))
    assert all(answer[-1].choices[0].finish_reason for answer in answers)


for step in (chat, chat_stream, chat_stream_with_usage, tools, tools_stream, structured, completions, embeddings, models, errors):
    step()
    print(step.__name__)
asyncio.run(many_at_once())
print("many_at_once")
