// llama.cpp goes on with a text, always with the likeliest token: one JSON object with the prompt's ids, the new ids and the text.
//
//   node generate.mjs MODULES MODEL.gguf PROMPT TOKENS
//
// MODULES: the folder that has node-llama-cpp, as ops/setup --bench installs it. On the CPU; stops at the end of a text. With
// 0 TOKENS the prompt is the name of a file, which is only encoded.
import fs from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";

const [modules, modelPath, prompt, tokens] = process.argv.slice(2);
const { getLlama, LlamaLogLevel } = await import(pathToFileURL(path.join(modules, "node-llama-cpp", "dist", "index.js")));
const llama = await getLlama({ gpu: false, build: "never", logLevel: LlamaLogLevel.error, maxThreads: 1 });
const model = await llama.loadModel({ modelPath });
const asked = model.tokenize(Number(tokens) > 0 ? prompt : fs.readFileSync(prompt, "utf8"));
const said = [];
const context = Number(tokens) > 0 ? await model.createContext({ sequences: 1, threads: 1 }) : null;
for await (const token of context ? context.getSequence().evaluate(asked, { temperature: 0 }) : []) {
  said.push(token);
  if (model.isEogToken(token) || said.length >= Number(tokens)) break;
}
process.stdout.write(`${JSON.stringify({ asked, said, text: model.detokenize([...asked, ...said]) })}\n`, () => process.exit(0));
