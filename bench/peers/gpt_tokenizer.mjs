// node gpt_tokenizer.mjs FILE IDS [ENTRIES]: OpenAI's r50k vocabulary (GPT-2's) by npm's gpt-tokenizer, in one thread; the median of five passes as a
// line of JSON, the ids to the file IDS, 4 bytes each. ENTRIES: of its cache of merges.
import { readFileSync, writeFileSync } from "node:fs";
import { encode, setMergeCacheSize } from "gpt-tokenizer/encoding/r50k_base";

const [file, out, entries] = process.argv.slice(2);
if (entries) setMergeCacheSize(Number(entries));
const text = readFileSync(file, "utf8");
const seconds = [];
let ids = [];
for (let pass = 0; pass < 5; ++pass) {
  const start = performance.now();
  ids = encode(text, { disallowedSpecial: new Set() });
  seconds.push((performance.now() - start) / 1000);
}
seconds.sort((one, other) => one - other);
writeFileSync(out, Buffer.from(Int32Array.from(ids).buffer));
console.log(JSON.stringify({ bytes: Buffer.byteLength(text), tokens: ids.length, seconds: seconds[2] }));
