// OpenAI's own client against a server of Holdfast's: what it gets, as JSON on standard output. One argument: the base URL; the second, the token.
import OpenAI from "openai";

const [baseURL, apiKey] = process.argv.slice(2);
const client = new OpenAI({ baseURL, apiKey, maxRetries: 0 });
const model = (await client.models.list()).data[0].id;
const request = { model, prompt: "The software", max_tokens: 24, seed: 7, n: 2 };
const whole = await client.completions.create({ ...request, logprobs: 1 });

const streamed = ["", ""];
let usage = null;
for await (const chunk of await client.completions.create({ ...request, stream: true, stream_options: { include_usage: true } })) {
  for (const choice of chunk.choices) streamed[choice.index] += choice.text;
  usage = chunk.usage ?? usage;
}

const errors = {};
const refused = async (name, fields, options) => {
  try {
    await client.completions.create({ ...request, ...fields }, options);
    errors[name] = "none";
  } catch (error) {
    errors[name] = { kind: error.constructor.name, status: error.status, param: error.param, code: error.code, message: error.message };
  }
};
await refused("temperature", { temperature: -1 });
await refused("logit_bias", { logit_bias: { 5: 1 } });
await refused("model", { model: "gpt-4" });
const stranger = new OpenAI({ baseURL, apiKey: "wrong", maxRetries: 0 });
try {
  await stranger.models.list();
} catch (error) {
  errors.token = { kind: error.constructor.name, status: error.status };
}

// A stream that is left after its first piece: the server hears of it.
const left = await client.completions.create({ ...request, n: 1, max_tokens: 50, stream: true, stop: null });
for await (const _ of left) break;

console.log(JSON.stringify({ model, whole, streamed, usage, errors }));
