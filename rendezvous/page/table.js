// Tables, which become cards on narrow screens. Roles are stated, because such styles take the elements' own away.
//
// Columns are [title, kind]: the first word of kind is the cell's name, all of it its classes. A column without a title holds
// buttons or links.
import { el } from "./dom.js";

// `label` is {"aria-label": text} or {"aria-labelledby": id}.
export function table(name, columns, label) {
  const heads = columns.map(([title, kind]) =>
    el("th", { role: "columnheader", scope: "col", class: kind }, title || el("span", { class: "visually-hidden" }, "Action")),
  );
  const body = el("tbody", { role: "rowgroup" });
  const head = el("thead", { role: "rowgroup" }, el("tr", { role: "row" }, heads));
  return { element: el("table", { class: `rows ${name}`, role: "table", ...label }, head, body), body };
}

// A row's element and its cells by name.
export function tableRow(columns) {
  const cells = {};
  for (const [title, kind] of columns) {
    cells[kind.split(" ")[0]] = el("td", { role: "cell", class: kind, "data-title": title });
  }
  return { element: el("tr", { role: "row" }, Object.values(cells)), cells };
}
