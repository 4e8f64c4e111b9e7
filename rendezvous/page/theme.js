// Light or dark, decided before the first paint (a plain script, loaded before the styles are used).
//
// The choice is "auto" (the system's), "light" or "dark", kept in localStorage; <html data-theme> always holds what it comes
// to, so the styles know one rule. Whoever paints by itself (the curves) listens to "themechange" on document.
"use strict";
(() => {
  const KEY = "holdfast.theme";
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const root = document.documentElement;

  const stored = () => {
    try {
      return localStorage.getItem(KEY) ?? "auto";
    } catch {
      return "auto"; // storage is switched off: the system's choice it is
    }
  };
  let choice = stored();

  const apply = () => {
    root.dataset.theme = choice === "auto" ? (dark.matches ? "dark" : "light") : choice;
    document.dispatchEvent(new Event("themechange"));
  };
  dark.addEventListener("change", apply);
  apply();

  window.holdfastTheme = {
    choice: () => choice,
    set(next) {
      choice = next;
      try {
        localStorage.setItem(KEY, next);
      } catch {
        // it holds until the page is closed
      }
      apply();
    },
  };
})();
