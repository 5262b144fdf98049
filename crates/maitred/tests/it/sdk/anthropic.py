"""What a user of Anthropic's Python SDK does, against the gateway at argv[1] with the key argv[2] and the model argv[3]."""

import sys

import anthropic

base, key, model = sys.argv[1:]
client = anthropic.Anthropic(base_url=base.removesuffix("/v1"), api_key=key, max_retries=0, timeout=20)
messages = [{"role": "user", "content": "What is on the menu?"}]

answer = client.messages.create(model=model, messages=messages, max_tokens=20)
assert answer.role == "assistant" and answer.content[0].text and answer.stop_reason in ("end_turn", "max_tokens")
assert answer.usage.input_tokens > 0 and 0 < answer.usage.output_tokens <= 20
print("create")

with client.messages.stream(model=model, messages=messages, max_tokens=20) as stream:
    text = "".join(stream.text_stream)
    answer = stream.get_final_message()
assert text == answer.content[0].text and answer.usage.output_tokens > 0
print("stream")

assert client.messages.count_tokens(model=model, messages=messages).input_tokens > 0
print("count_tokens")

for kind, status, client_of, name in (
    (anthropic.NotFoundError, "not_found_error", client, "no-such-model"),
    (anthropic.AuthenticationError, "authentication_error", client.with_options(api_key="wrong"), model),
):
    try:
        client_of.messages.create(model=name, messages=messages, max_tokens=20)
    except kind as error:
        assert error.body["type"] == "error" and error.body["error"]["type"] == status, error.body
    else:
        raise AssertionError(f"no {kind}")
print("errors")
