// llama.cpp writes texts at the same time, each from a prompt of its own: one JSON object with the tokens a second, from the first
// token of the last text that began to the end of the first that ended; the median of as many rounds as take SECONDS.
//
//   node throughput.mjs MODULES MODEL.gguf STREAMS TOKENS THREADS FLASH PROMPT_TOKENS SECONDS
//
// MODULES: the folder that has node-llama-cpp, as ops/setup --bench installs it. FLASH: 1 with flash attention. On the CPU, always the
// likeliest token; no text ends before it has all TOKENS.
import path from "node:path";
import { pathToFileURL } from "node:url";

const [modules, modelPath, streams, tokens, threads, flash, promptTokens, seconds] = process.argv.slice(2).map((a, i) => (i > 1 ? Number(a) : a));
const { getLlama, LlamaLogLevel } = await import(pathToFileURL(path.join(modules, "node-llama-cpp", "dist", "index.js")));
const llama = await getLlama({ gpu: false, build: "never", logLevel: LlamaLogLevel.error, maxThreads: threads });
const model = await llama.loadModel({ modelPath });
const context = await model.createContext({ sequences: streams, contextSize: promptTokens + tokens + 8, batchSize: Math.max(512, streams), threads, flashAttention: flash === 1 });
const sequences = Array.from({ length: streams }, () => context.getSequence());
let [began, lastBegin, firstEnd, written] = [0, 0, 0, 0];
const write = async (stream) => {
  const prompt = Array.from({ length: promptTokens }, (_, i) => (7 * i + 13 * stream) % 200 + 3);
  let count = 0;
  for await (const _ of sequences[stream].evaluate(prompt, { temperature: 0, yieldEogToken: true })) {
    if (++count === 1) [began, lastBegin] = [began + 1, performance.now()];
    if (began === streams && firstEnd === 0) ++written;
    if (count >= tokens) break;
  }
  if (firstEnd === 0) firstEnd = performance.now();
};
const rates = [];
for (let measured = 0; measured < seconds * 1000; measured += firstEnd - lastBegin) {
  [began, lastBegin, firstEnd, written] = [0, 0, 0, 0];
  await Promise.all(sequences.map((_, stream) => write(stream)));
  rates.push((written / (firstEnd - lastBegin)) * 1000);
  for (const sequence of sequences) await sequence.clearHistory();
}
rates.sort((a, b) => a - b);
process.stdout.write(`${JSON.stringify({ tokens_per_s: rates[Math.floor(rates.length / 2)], memory_mb: process.memoryUsage().rss / 1e6 })}\n`, () => process.exit(0));
