// The submit form's texts as values of a job spec: checked one by one, and written as JSON.
//
// Integers stay text on their way: a seed may have 19 digits, of which a JavaScript number keeps 15.

const INTEGER = /^[+-]?\d+$/;
const NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;

const pairsOf = (text) =>
  text
    .split(",")
    .map((pair) => pair.trim())
    .filter((pair) => pair !== "");

function outside({ min, max, above_min: aboveMin, below_max: belowMax, range }, value) {
  const low = value < min || (aboveMin && value === min);
  const high = value > max || (belowMax && value === max);
  return low || high ? `${value} is out of range: ${range}.` : "";
}

// The fault of `text` in `field` by itself; "" where there is none. Empty text is the default.
export function complaint(field, text) {
  const value = text.trim();
  if (value === "") return field.default === "required" ? "This is required." : "";
  if (field.type === "integer") return INTEGER.test(value) ? outside(field, Number(value)) : "Enter a whole number.";
  if (field.type === "number") return NUMBER.test(value) ? outside(field, Number(value)) : "Enter a number.";
  if (field.type === "map") {
    const wrong = pairsOf(value).find((pair) => !/^[^=\s]+=/.test(pair));
    return wrong === undefined ? "" : `“${wrong}” is not key=value.`;
  }
  const bytes = new TextEncoder().encode(value).length;
  return bytes > field.max_bytes ? `This has ${bytes} bytes, at most ${field.max_bytes} are taken.` : "";
}

function jsonOf(field, text) {
  if (field.type === "integer") return text.replace(/^\+/, "").replace(/^(-?)0+(?=\d)/, "$1");
  if (field.type === "number") return String(Number(text));
  if (field.type === "map") {
    return JSON.stringify(
      Object.fromEntries(
        pairsOf(text).map((pair) => [pair.slice(0, pair.indexOf("=")).trim(), pair.slice(pair.indexOf("=") + 1).trim()]),
      ),
    );
  }
  return JSON.stringify(text);
}

// The JSON text of a spec; entries are [field, text], each without a complaint. Empty ones are left to their default.
export function specText(entries) {
  const members = entries.map(([field, text]) => [field, text.trim()]).filter(([, text]) => text !== "");
  return `{${members.map(([field, text]) => `${JSON.stringify(field.name)}:${jsonOf(field, text)}`).join(",")}}`;
}

// The text that stands for a value of a resolved spec; "" where it is the default.
export function textOf(field, value) {
  if (value === null || value === undefined) return "";
  const text =
    typeof value === "object"
      ? Object.entries(value)
          .map(([key, word]) => `${key}=${word}`)
          .join(", ")
      : String(value);
  return field.default_is_a_value && text === field.default ? "" : text;
}
