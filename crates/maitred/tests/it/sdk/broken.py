"""A stream that breaks off must be an error to a user of OpenAI's Python SDK, after the text that came."""

import sys

from openai import APIError, OpenAI

base, key, model = sys.argv[1:]
client = OpenAI(base_url=base, api_key=key, max_retries=0, timeout=20)
messages = [{"role": "user", "content": "What is on the menu?"}]
text = ""
try:
    for chunk in client.chat.completions.create(model=model, messages=messages, stream=True):
        text += chunk.choices[0].delta.content or ""
except APIError as error:
    assert text, "what had come is there"
    assert error.code == "upstream_broken" and error.message, error.body
    print("told")
