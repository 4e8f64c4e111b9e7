// The options of a text: what a question may say beside its prompt.
import { el, setAttribute, setText } from "./dom.js";

const NUMBERS = [
  { name: "max_tokens", label: "Tokens at most", value: 100, least: 1, most: 1000000, whole: true },
  { name: "temperature", label: "Temperature", value: 1, least: 0, most: 100 },
  { name: "top_p", label: "top_p", value: 1, least: 0, most: 1 },
  { name: "top_k", label: "top_k", value: 0, least: 0, most: 1000000, whole: true },
  { name: "repetition_penalty", label: "Repetition penalty", value: 1, least: 0.01, most: 100 },
  { name: "seed", label: "Seed", value: "", least: 0, most: 2 ** 53 - 1, whole: true, hint: "empty: another each time" },
];

function complaint({ least, most, whole, value: usual }, text) {
  if (text === "" && usual === "") return "";
  const value = Number(text);
  if (text === "" || Number.isNaN(value)) return "Enter a number.";
  if (whole && !Number.isInteger(value)) return "Enter a whole number.";
  return value < least || value > most ? `Enter a number from ${least} to ${most}.` : "";
}

function numberField(field) {
  const id = `option-${field.name}`;
  const input = el("input", { id, inputmode: field.whole ? "numeric" : "decimal", autocomplete: "off", value: String(field.value), placeholder: field.hint, "aria-describedby": `${id}-error` });
  const error = el("p", { class: "field-error", id: `${id}-error` });
  const check = () => {
    const wrong = complaint(field, input.value.trim());
    setText(error, wrong);
    setAttribute(input, "aria-invalid", wrong ? "true" : null);
    return wrong === "";
  };
  input.addEventListener("input", check);
  return { field, input, check, element: el("div", { class: "option" }, el("label", { for: id }, field.label), input, error) };
}

export function optionsForm() {
  const fields = NUMBERS.map(numberField);
  const stop = el("input", { id: "option-stop", autocomplete: "off", placeholder: "none; \\n is a new line" });
  const element = el(
    "div",
    { class: "options" },
    fields.map((each) => each.element),
    el("div", { class: "option" }, el("label", { for: "option-stop" }, "Stop before"), stop),
  );
  return {
    element,
    // The question's fields, or null where something is wrong, which then has the focus.
    values() {
      const wrong = fields.filter((each) => !each.check());
      if (wrong.length > 0) {
        wrong[0].input.focus();
        return null;
      }
      const values = Object.fromEntries(fields.filter(({ input }) => input.value.trim() !== "").map(({ field, input }) => [field.name, Number(input.value)]));
      if (stop.value !== "") values.stop = stop.value.replaceAll("\\n", "\n");
      return values;
    },
  };
}
