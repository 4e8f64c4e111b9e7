// A checkpoint's model as a file of another program: asks for format and type, lets the service read and verify the checkpoint,
// and hands the file to the browser.
//
// The file comes by a link, which the browser saves to disk as it comes and shows in its list of downloads; a reply to fetch()
// would be held in memory first, and the model of GPT-2's size has 500 MB. A link carries no token: the service gives a ticket
// for it, good once and for half a minute.
import { announce } from "./announce.js";
import { address, post } from "./api.js";
import { ask } from "./dialog.js";
import { el, setText } from "./dom.js";
import { bytes, count } from "./words.js";

const PREPARING_MS = 1800000; // a checkpoint of many gigabytes on a slow disk

const FORMATS = {
  safetensors: {
    title: "safetensors, for transformers",
    help: "A tar of model.safetensors, config.json and, where the service finds it, the tokenizer.",
    use: (folder) => `GPT2LMHeadModel.from_pretrained("${folder}")`,
  },
  gguf: {
    title: "gguf, for llama.cpp",
    help: "One file with the tokenizer inside: the service must see the folder that the job was trained from.",
    use: (_, file) => `llama-cli -m ${file}`,
  },
  npz: {
    title: "npz, for numpy",
    help: "A tar of model.npz, config.json and, where the service finds it, the tokenizer. numpy has no bfloat16.",
    use: (folder) => `numpy.load("${folder}/model.npz")`,
  },
};
const DTYPES = ["float32", "float16", "bfloat16"];

const field = (id, label, ...below) => el("div", { class: "field" }, el("label", { for: id }, label), below);

function question({ job, step }) {
  const help = el("p", { class: "hint", id: "export-help" });
  const status = el("p", { class: "hint", role: "status" });
  const format = el(
    "select",
    { id: "export-format", "aria-describedby": "export-help" },
    Object.entries(FORMATS).map(([value, { title }]) => el("option", { value }, title)),
  );
  const dtype = el(
    "select",
    { id: "export-dtype" },
    DTYPES.map((value) => el("option", { value }, value)),
  );
  const show = () => {
    setText(help, FORMATS[format.value].help);
    dtype.lastChild.disabled = format.value === "npz";
    if (dtype.selectedOptions[0].disabled) dtype.value = DTYPES[0];
  };
  format.addEventListener("change", show);
  show();
  return {
    title: `Download the model of step ${count(step)}`,
    content: [
      field("export-format", "Format", format, help),
      field("export-dtype", "Type of the parameters", dtype),
      status,
    ],
    focus: format,
    confirm: "Download",
    async act() {
      const given = { format: format.value, dtype: dtype.value };
      const left = new AbortController();
      status.closest("dialog").addEventListener("close", () => left.abort());
      setText(status, "The service reads and verifies the checkpoint…");
      try {
        const path = `jobs/${job}/checkpoints/${step}/export`;
        return { ...given, ...(await post(path, given, { patience: PREPARING_MS, signal: left.signal })) };
      } finally {
        setText(status, "");
      }
    },
  };
}

function answer({ format, file, bytes: size }) {
  const packed = file.endsWith(".tar");
  const folder = file.replace(/-\w+\.tar$/, "");
  const commands = [packed && `tar xf ${file}`, FORMATS[format].use(folder, file)].filter(Boolean);
  return {
    title: "The browser saves it",
    content: [
      el("p", {}, el("code", {}, file), `, ${bytes(size)}: the list of downloads shows how far it is.`),
      el("pre", { class: "commands" }, el("code", {}, commands.join("\n"))),
    ],
    leave: "Close",
  };
}

export async function downloadModel(checkpoint) {
  const prepared = await ask(question(checkpoint));
  if (!prepared) return;
  el("a", { href: address(`downloads/${prepared.ticket}`), download: prepared.file }).click();
  announce(`${prepared.file} is being saved.`);
  await ask(answer(prepared));
}
