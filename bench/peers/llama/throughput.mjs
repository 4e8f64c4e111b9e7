// llama.cpp writes texts at the same time, each from a prompt of its own: one JSON object with the tokens a second, from the first
// token of the last text that began to the end of the first that ended.
//
//   node throughput.mjs MODULES MODEL.gguf STREAMS TOKENS THREADS FLASH PROMPT_TOKENS
//
// MODULES: the folder that has node-llama-cpp, as ops/setup --bench installs it. FLASH: 1 with flash attention. On the CPU, always the
// likeliest token; no text ends before it has all TOKENS.
import path from "node:path";
import { pathToFileURL } from "node:url";

const [modules, modelPath, streams, tokens, threads, flash, promptTokens] = process.argv.slice(2).map((a, i) => (i > 1 ? Number(a) : a));
const { getLlama, LlamaLogLevel } = await import(pathToFileURL(path.join(modules, "node-llama-cpp", "dist", "index.js")));
const llama = await getLlama({ gpu: false, build: "never", logLevel: LlamaLogLevel.error, maxThreads: threads });
const model = await llama.loadModel({ modelPath });
const context = await model.createContext({ sequences: streams, contextSize: promptTokens + tokens + 8, batchSize: Math.max(512, streams), threads, flashAttention: flash === 1 });
let began = 0, lastBegin = 0, firstEnd = 0, written = 0;
const counts = [];
const write = async (stream) => {
  const prompt = Array.from({ length: promptTokens }, (_, i) => (7 * i + 13 * stream) % 200 + 3);
  let count = 0;
  for await (const _ of context.getSequence().evaluate(prompt, { temperature: 0, yieldEogToken: true })) {
    if (++count === 1) [began, lastBegin] = [began + 1, performance.now()];
    if (began === streams && firstEnd === 0) ++written;
    if (count >= tokens) break;
  }
  if (firstEnd === 0) firstEnd = performance.now();
};
await Promise.all(Array.from({ length: streams }, (_, stream) => write(stream)));
process.stdout.write(`${JSON.stringify({ tokens_per_s: (written / (firstEnd - lastBegin)) * 1000, memory_mb: process.memoryUsage().rss / 1e6 })}\n`, () => process.exit(0));
