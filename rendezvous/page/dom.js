// Elements, made without any text of HTML: nothing that a job, a worker or a log line says is ever read as markup.

function apply(element, properties) {
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "class") element.setAttribute("class", value);
    else if (name === "dataset") Object.assign(element.dataset, value);
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
}

// el("a", {href: "#/jobs", class: "quiet"}, "Jobs", icon). Children that are null or false are left out.
export function el(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  apply(element, properties);
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

// Changes the text only where it differs, so that selections and screen readers are left alone by what did not change.
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// null removes the attribute.
export function setAttribute(element, name, value) {
  if (value === null) element.removeAttribute(name);
  else if (element.getAttribute(name) !== String(value)) element.setAttribute(name, value);
}

const SVG = "http://www.w3.org/2000/svg";
// Drawn by hand on a grid of 24, one stroke each.
const ICONS = {
  auto: "M4 5h16v11H4zM9 20h6M12 16v4",
  light:
    "M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8z" +
    "M12 2v2M12 20v2M2 12h2M20 12h2M5 5l1.4 1.4M17.6 17.6 19 19M19 5l-1.4 1.4M6.4 17.6 5 19",
  dark: "M20 14.5A8.5 8.5 0 0 1 9.5 4a8.5 8.5 0 1 0 10.5 10.5z",
  person: "M12 4a4 4 0 1 0 0 8 4 4 0 0 0 0-8zM4.5 20.5c.7-4 3.7-6 7.5-6s6.8 2 7.5 6",
  down: "M12 5v13M6 12.5l6 6 6-6",
  newer: "M15 5l-7 7 7 7",
  older: "M9 5l7 7-7 7",
};

export function icon(name) {
  const svg = document.createElementNS(SVG, "svg");
  apply(svg, { viewBox: "0 0 24 24", class: "icon", "aria-hidden": "true" });
  const path = document.createElementNS(SVG, "path");
  path.setAttribute("d", ICONS[name]);
  svg.append(path);
  return svg;
}
