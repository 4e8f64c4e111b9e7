// A text while it is written: each token tinted by how likely it was, and its probability and alternatives on hover, or by the
// arrow keys.
import { el, setText } from "./dom.js";

const TINTS = [0.9, 0.5, 0.2, 0.05]; // at least so likely: tint 0, 1, 2, 3; less: 4

const probability = (logarithm) => Math.exp(logarithm);
const percent = (share) => (share >= 0.1 ? `${(share * 100).toFixed(0)} %` : share >= 0.001 ? `${(share * 100).toFixed(1)} %` : "< 0.1 %");
const visible = (text) => text.replaceAll("\n", "⏎").replaceAll("\t", "⇥").replaceAll(" ", "␣");

function tintOf(share) {
  const found = TINTS.findIndex((least) => share >= least);
  return found < 0 ? TINTS.length : found;
}

// [{text, share, others: [{text, share}]}] of a part's logprobs.
function tokensOf(logprobs) {
  return logprobs.tokens.map((text, i) => ({
    text,
    share: probability(logprobs.token_logprobs[i]),
    others: Object.entries(logprobs.top_logprobs[i] ?? {})
      .map(([other, logarithm]) => ({ text: other, share: probability(logarithm) }))
      .sort((a, b) => b.share - a.share),
  }));
}

function row({ text, share }, isChosen) {
  const bar = el("span", { class: "share-bar" });
  bar.style.width = `${Math.max(1, share * 100)}%`;
  return el(
    "li",
    { class: "share", "data-chosen": isChosen },
    el("code", {}, visible(text)),
    el("span", { class: "share-line" }, bar),
    el("span", { class: "number" }, percent(share)),
  );
}

// Of the tokens that a piece of text is made of: more than one where a character is cut among them.
function described(tokens) {
  return tokens.map(({ text, share, others }) => {
    const known = others.some((other) => other.text === text);
    return el("ol", {}, known ? [] : row({ text, share }, true), others.map((other) => row(other, other.text === text)));
  });
}

export function writtenText(label) {
  const text = el("div", { class: "written", role: "group", tabindex: "0", "aria-label": label });
  const chances = el("div", { class: "chances card", role: "status", hidden: true });
  const element = el("div", { class: "written-frame" }, text, chances);
  let shown = null;

  const show = (piece) => {
    shown?.removeAttribute("data-shown");
    shown = piece;
    chances.hidden = piece === null;
    if (piece === null) return;
    piece.setAttribute("data-shown", "");
    chances.replaceChildren(...described(piece.tokens));
    // Below the piece, and within the frame.
    const [at, frame] = [piece.getClientRects()[0] ?? piece.getBoundingClientRect(), element.getBoundingClientRect()];
    chances.style.top = `${at.bottom - frame.top + 6}px`;
    chances.style.left = `${Math.max(0, Math.min(at.left - frame.left, frame.width - chances.offsetWidth))}px`;
  };
  const pieceAt = (event) => event.target.closest?.(".token");
  text.addEventListener("pointerover", (event) => pieceAt(event) && show(pieceAt(event)));
  element.addEventListener("pointerleave", () => show(null));
  text.addEventListener("blur", () => show(null));
  text.addEventListener("keydown", (event) => {
    const pieces = [...text.querySelectorAll(".token")];
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (event.key === "Escape") show(null);
    if (!step || pieces.length === 0) return;
    event.preventDefault();
    const next = shown ? pieces.indexOf(shown) + step : step > 0 ? 0 : pieces.length - 1;
    if (pieces[next]) show(pieces[next]);
  });

  return {
    element,
    clear(prompt) {
      show(null);
      text.replaceChildren(el("span", { class: "prompt" }, prompt));
    },
    add(choice) {
      const tokens = tokensOf(choice.logprobs);
      // Pieces that are whole characters are tokens by themselves.
      const apart = tokens.map((token) => token.text).join("") === choice.text;
      for (const group of apart ? tokens.map((token) => [token]) : [tokens]) {
        const piece = el("span", { class: "token" }, apart ? group[0].text : choice.text);
        piece.tokens = group;
        if (group.length > 0) piece.dataset.tint = tintOf(Math.min(...group.map((token) => token.share)));
        text.append(piece);
      }
      return tokens.length;
    },
    text: () => text.textContent,
    say: (why) => setText(text, why),
  };
}
