// One field of the submit form: its label, the way to enter it, its help, and what is wrong with it.
import { el, setAttribute, setText } from "./dom.js";
import { complaint } from "./spec_values.js";

// The default, taken when nothing is entered.
function defaultInWords(field) {
  if (field.default === "required" || field.default === "") return "";
  return field.default_is_a_value ? field.default : `default: ${field.default}`;
}

function entry(field, id) {
  if (field.choices?.length > 0) {
    return el(
      "select",
      { id },
      el(
        "option",
        { value: "" },
        field.default_is_a_value && field.default ? `${field.default} (default)` : defaultInWords(field),
      ),
      field.choices.filter((choice) => choice !== field.default).map((choice) => el("option", { value: choice }, choice)),
    );
  }
  const mode = { integer: "numeric", number: "decimal" }[field.type];
  return el("input", {
    id,
    type: "text",
    inputmode: mode,
    autocomplete: "off",
    spellcheck: "false",
    autocapitalize: "off",
    placeholder: field.type === "map" ? "key=value, key=value" : defaultInWords(field),
    required: field.default === "required",
  });
}

// onChange(field): something was entered. A complaint is shown once the reader has been there, not before.
export function formField(field, onChange) {
  const id = `field-${field.name}`;
  const input = entry(field, id);
  const error = el("p", { class: "field-error", id: `${id}-error` });
  const range = field.choices?.length > 0 || field.type === "string" || field.type === "map" ? "" : field.range;
  const help = el("p", { class: "hint", id: `${id}-help` }, [field.help, range && `(${range})`].filter(Boolean).join(" "));
  const element = el(
    "div",
    { class: "field", dataset: { field: field.name } },
    el("label", { for: id }, field.name, field.default === "required" && el("span", { class: "required" }, " required")),
    input,
    error,
    help,
  );
  input.setAttribute("aria-describedby", `${id}-error ${id}-help`);
  let touched = false;
  let said = ""; // by the service, of what was entered when it was asked

  const self = {
    field,
    element,
    input,
    text: () => input.value,
    own: () => complaint(field, input.value),
    complaint: () => self.own() || said,
    setText(text) {
      if (input.tagName === "SELECT" && ![...input.options].some((option) => option.value === text)) return;
      input.value = text;
      touched = text !== "";
    },
    touch() {
      touched = true;
      self.show();
    },
    setSaid(message) {
      said = message;
      self.show();
    },
    show() {
      const text = touched ? self.complaint() : "";
      setText(error, text);
      setAttribute(input, "aria-invalid", text ? "true" : null);
    },
  };
  input.addEventListener("input", () => {
    touched = true;
    said = "";
    self.show();
    onChange(self);
  });
  input.addEventListener("blur", () => {
    if (input.value !== "") self.touch();
  });
  return self;
}
