// The button that goes through the choices of theme.js.
import { icon } from "./dom.js";

const NEXT = { auto: "light", light: "dark", dark: "auto" };

function show(button) {
  const choice = window.holdfastTheme.choice();
  const words = (each) => (each === "auto" ? "the system's" : each);
  const label = `Colours: ${words(choice)}. Switch to ${words(NEXT[choice])}.`;
  button.replaceChildren(icon(choice));
  button.setAttribute("aria-label", label);
  button.title = label;
}

export function startThemeButton(button) {
  button.addEventListener("click", () => {
    window.holdfastTheme.set(NEXT[window.holdfastTheme.choice()]);
    show(button);
  });
  show(button);
}
