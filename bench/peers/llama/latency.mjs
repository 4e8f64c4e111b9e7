// llama.cpp under load: requests come at given times, wait for a free sequence, and are written side by side. One JSON object: by
// request, the milliseconds until its first token; the process's memory.
//
//   node latency.mjs MODULES MODEL.gguf REQUESTS.json SEQUENCES TOKENS THREADS FLASH
//
// MODULES: the folder that has node-llama-cpp, as ops/setup --bench installs it. REQUESTS: [{"at_s": seconds, "prompt": [token, ...]}, ...].
// FLASH: 1 with flash attention. A sequence keeps what its next prompt begins with alike. On the CPU, always the likeliest token.
import { readFileSync } from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";

const [modules, modelPath, requestsPath, sequences, tokens, threads, flash] = process.argv.slice(2).map((a, i) => (i > 2 ? Number(a) : a));
const { getLlama, LlamaLogLevel } = await import(pathToFileURL(path.join(modules, "node-llama-cpp", "dist", "index.js")));
const requests = JSON.parse(readFileSync(requestsPath, "utf8"));
const longest = Math.max(...requests.map(({ prompt }) => prompt.length)) + tokens + 8;
const llama = await getLlama({ gpu: false, build: "never", logLevel: LlamaLogLevel.error, maxThreads: threads });
const model = await llama.loadModel({ modelPath });
const context = await model.createContext({ sequences, contextSize: longest, batchSize: 512, threads, flashAttention: flash === 1 });
const free = Array.from({ length: sequences }, () => context.getSequence());
const waiting = [];
const taken = async () => free.pop() ?? (await new Promise((resolve) => waiting.push(resolve)));
const giveBack = (sequence) => (waiting.length > 0 ? waiting.shift()(sequence) : free.push(sequence));

const begun = performance.now();
const serve = async ({ at_s: atS, prompt }) => {
  await new Promise((resolve) => setTimeout(resolve, atS * 1000 - (performance.now() - begun)));
  const came = performance.now();
  const sequence = await taken();
  await sequence.adaptStateToTokens(prompt.slice(0, -1));
  let [count, first] = [0, 0];
  for await (const _ of sequence.evaluate(prompt.slice(sequence.nextTokenIndex), { temperature: 0, yieldEogToken: true })) {
    if (++count === 1) first = performance.now();
    if (count >= tokens) break;
  }
  giveBack(sequence);
  return first - came;
};
const firstTokensMs = await Promise.all(requests.map(serve));
process.stdout.write(`${JSON.stringify({ first_token_ms: firstTokensMs, memory_mb: process.memoryUsage().rss / 1e6 })}\n`, () => process.exit(0));
