// What a user of OpenAI's Node SDK does, against the gateway at argv[1] with the key argv[2] and the model argv[3].

import assert from "node:assert/strict";
import OpenAI from "openai";

const [baseURL, apiKey, model] = process.argv.slice(1);
const client = new OpenAI({ baseURL, apiKey, maxRetries: 0, timeout: 20_000 });
const messages = [{ role: "user", content: "What is on the menu?" }];
const parameters = {
  type: "object",
  properties: { dish: { type: "string" }, count: { type: "integer" } },
  required: ["dish", "count"],
  additionalProperties: false,
};
const tools = [{ type: "function", function: { name: "order", description: "Orders a dish.", strict: true, parameters } }];
const choices = [{ type: "function", function: { name: "order" } }, "required"];

function checkCall(call) {
  assert.equal(call.function.name, "order");
  const { dish, count } = JSON.parse(call.function.arguments);
  assert.equal(typeof dish, "string");
  assert.equal(typeof count, "number");
}

async function gather(stream) {
  const chunks = [];
  for await (const chunk of stream) chunks.push(chunk);
  return chunks;
}

async function refused(kind, code, call) {
  await assert.rejects(call, (error) => {
    assert.ok(error instanceof kind, `${error}`);
    assert.equal(error.code, code);
    assert.ok(error.requestID);
    return true;
  });
}

const steps = {
  async chat() {
    const answer = await client.chat.completions.create({ model, messages, max_tokens: 20 });
    assert.equal(answer.model, model);
    assert.ok(answer.choices[0].message.content);
    assert.ok(answer.usage.completion_tokens <= 20);
  },
  async chatStream() {
    const chunks = await gather(await client.chat.completions.create({ model, messages, max_tokens: 20, stream: true }));
    assert.ok(chunks.every((chunk) => chunk.choices.length === 1 && !chunk.usage));
    assert.ok(chunks.map((chunk) => chunk.choices[0].delta.content ?? "").join(""));
    assert.ok(chunks.at(-1).choices[0].finish_reason);
  },
  async chatStreamWithUsage() {
    const stream_options = { include_usage: true };
    const request = { model, messages, max_tokens: 20, stream: true, stream_options };
    const chunks = await gather(await client.chat.completions.create(request));
    assert.deepEqual(chunks.at(-1).choices, []);
    assert.ok(chunks.at(-1).usage.completion_tokens > 0);
  },
  async tools() {
    for (const tool_choice of choices) {
      const answer = await client.chat.completions.create({ model, messages, tools, tool_choice });
      checkCall(answer.choices[0].message.tool_calls[0]);
    }
  },
  async toolsStream() {
    for (const tool_choice of choices) {
      const stream = client.chat.completions.stream({ model, messages, tools, tool_choice });
      const answer = await stream.finalChatCompletion();
      checkCall(answer.choices[0].message.tool_calls[0]);
    }
  },
  async completions() {
    const answer = await client.completions.create({ model, prompt: "Once upon", max_tokens: 8 });
    assert.ok(answer.choices[0].text);
    const chunks = await gather(await client.completions.create({ model, prompt: "Once", max_tokens: 8, stream: true }));
    assert.ok(chunks.every((chunk) => chunk.choices.length === 1));
  },
  async embeddings() {
    const answer = await client.embeddings.create({ model, input: ["one", "two"] });
    assert.equal(answer.data.length, 2);
    assert.ok(answer.data[0].embedding.length > 0);
    assert.equal(typeof answer.data[0].embedding[0], "number");
  },
  async models() {
    const ids = (await gather(await client.models.list())).map((entry) => entry.id);
    assert.deepEqual(ids, [model]);
    assert.equal((await client.models.retrieve(model)).id, model);
  },
  async errors() {
    const create = (more) => () => client.chat.completions.create({ model, messages, ...more });
    await refused(OpenAI.NotFoundError, "model_not_found", create({ model: "no-such-model" }));
    await refused(OpenAI.BadRequestError, "missing_model", create({ model: undefined }));
    const stranger = new OpenAI({ baseURL, apiKey: "wrong", maxRetries: 0, timeout: 20_000 });
    await refused(OpenAI.AuthenticationError, "invalid_key", () => stranger.models.list());
  },
  async abort() {
    const request = { model, messages, max_tokens: 20000, ignore_eos: true, stream: true };
    const stream = await client.chat.completions.create(request);
    let seen = 0;
    for await (const chunk of stream) {
      assert.ok(chunk);
      if (++seen === 3) break;
    }
    assert.equal(seen, 3);
  },
};

for (const [name, step] of Object.entries(steps)) {
  await step();
  console.log(name);
}
