// The playground: a prompt, its options, and what one or two of the models that are served here write after it.
import { models, Refused, writeText } from "./ask.js";
import { el, setText } from "./dom.js";
import { startLoadLine } from "./load_line.js";
import { optionsForm } from "./options_form.js";
import { keepToken, token } from "./session.js";
import { startThemeButton } from "./theme_button.js";
import { writtenText } from "./written_text.js";

const ALTERNATIVES = 5;
const LOOK_AGAIN_MS = 2000;
const LEGEND = ["90 % and more", "50 %", "20 %", "5 %", "less"];
const main = document.getElementById("main");

const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;
// With the token's name, never the token.
const curlOf = (fields) =>
  `curl -s ${token() ? '-H "Authorization: Bearer $HOLDFAST_TOKEN" ' : ""}${new URL("v1/completions", document.baseURI)} -d ${quoted(JSON.stringify(fields))}`;

// One model's answer: its text, what it took, and the same question for a shell.
function answerCard(model) {
  const written = writtenText(`Text of ${model.id}`);
  const state = el("p", { class: "secondary", role: "status" });
  const error = el("p", { class: "error", role: "alert" });
  const command = el("pre", { class: "commands" });
  const element = el(
    "section",
    { class: "card answer", "aria-label": model.id },
    el("h2", {}, model.id),
    written.element,
    error,
    state,
    el("details", {}, el("summary", { class: "quiet" }, "The same from a shell"), command),
  );

  async function write(fields, signal) {
    const question = { model: model.id, ...fields, logprobs: ALTERNATIVES };
    const begun = performance.now();
    let [tokens, firstMs, end, fingerprint] = [0, 0, "", ""];
    const seconds = () => (performance.now() - begun) / 1000;
    const show = () => {
      const rate = seconds() > 0 ? (tokens / seconds()).toFixed(0) : 0;
      const first = tokens > 0 ? `, the first after ${firstMs.toFixed(0)} ms` : "";
      setText(state, `${tokens} tokens in ${seconds().toFixed(1)} s, ${rate} tokens/s${first}; seed ${fields.seed}${end && `; ended: ${end}`}${fingerprint && `; ${fingerprint}`}`);
    };
    setText(error, "");
    setText(command, curlOf({ model: model.id, ...fields }));
    written.clear(fields.prompt);
    try {
      await writeText(question, signal, (choice, whole) => {
        if (tokens === 0) firstMs = performance.now() - begun;
        tokens += written.add(choice);
        end = choice.finish_reason ?? "";
        fingerprint = whole.system_fingerprint;
        show();
      });
    } catch (failure) {
      if (failure.name === "AbortError") end = "you stopped it";
      else setText(error, failure.message);
      show();
      if (failure.status === 401) throw failure;
    }
  }
  return { element, write };
}

function modelSelect(id, label, offered, none) {
  const select = el("select", { id }, none && el("option", { value: "" }, none), offered.map((model) => el("option", { value: model.id }, model.step >= 0 ? `${model.id} (step ${model.step})` : model.id)));
  return { select, element: el("div", { class: "option" }, el("label", { for: id }, label), select) };
}

function askForToken(why) {
  const error = el("p", { class: "error", role: "alert" }, why);
  const field = el("input", { id: "token", type: "password", autocomplete: "current-password", required: true });
  const form = el("form", { class: "card ask" }, el("h1", { tabindex: "-1" }, "A token, please"), error, el("label", { for: "token" }, "One that this server takes"), field, el("button", { type: "submit", class: "primary" }, "Go on"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    keepToken(field.value.trim(), false);
    start();
  });
  main.replaceChildren(form);
  field.focus();
}

function playground(offered) {
  const prompt = el("textarea", { id: "prompt", spellcheck: "false" });
  const options = optionsForm();
  const first = modelSelect("model", "Model", offered);
  const named = new URLSearchParams(location.search).get("model");
  if (offered.some((model) => model.id === named)) first.select.value = named;
  const second = modelSelect("beside", "Beside it", offered, "nothing");
  const write = el("button", { type: "submit", class: "primary" }, "Write");
  const stop = el("button", { type: "button", disabled: true }, "Stop");
  const answers = el("div", { class: "answers" });
  let running = null;

  const form = el(
    "form",
    { class: "card ask" },
    el("div", { class: "option" }, el("label", { for: "prompt" }, "Prompt"), prompt),
    options.element,
    el("div", { class: "ask-line" }, first.element, offered.length > 1 && second.element, el("div", { class: "buttons" }, stop, write)),
    el("p", { class: "hint" }, "Ctrl+Enter writes. The same seed, prompt and options write the same text, whatever else is being written."),
  );
  const chosen = () => [...new Set([first.select.value, second.select.value])].filter((id) => id !== "").map((id) => offered.find((model) => model.id === id));

  async function ask() {
    const values = options.values();
    if (values === null || running) return;
    const fields = { prompt: prompt.value, seed: Math.floor(Math.random() * 2 ** 31), ...values };
    const cards = chosen().map(answerCard);
    answers.replaceChildren(...cards.map((card) => card.element));
    running = new AbortController();
    [write.disabled, stop.disabled] = [true, false];
    const ended = await Promise.allSettled(cards.map((card) => card.write(fields, running.signal)));
    running = null;
    [write.disabled, stop.disabled] = [false, true];
    const refused = ended.find((each) => each.status === "rejected" && each.reason instanceof Refused);
    if (refused) askForToken(refused.reason.message);
  }
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    ask();
  });
  prompt.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) ask();
  });
  stop.addEventListener("click", () => running?.abort());
  const legend = el("p", { class: "legend" }, "A token's probability:", LEGEND.map((text, tint) => el("span", { class: "token", dataset: { tint } }, text)));
  main.replaceChildren(el("div", { class: "playground" }, el("h1", { class: "visually-hidden" }, "Playground"), form, answers, legend));
  prompt.focus();
}

async function start() {
  try {
    const offered = await models();
    if (offered.length > 0) return playground(offered);
    main.replaceChildren(el("p", { role: "status" }, "No model is ready to be asked: a job of kind serve has one when its first replica is ready."));
    setTimeout(start, LOOK_AGAIN_MS);
  } catch (failure) {
    if (failure.status === 401) return askForToken(failure.message);
    main.replaceChildren(el("p", { class: "error", role: "alert" }, failure.message));
  }
}

startThemeButton(document.getElementById("theme"));
startLoadLine(document.getElementById("load"));
start();
