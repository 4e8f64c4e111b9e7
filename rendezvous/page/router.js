// From the address's hash to a view. "#/jobs/j1/logs?x=y" has the parts ["jobs", "j1", "logs"] and the query {x: "y"}.

export function parseHash(hash) {
  const [path, query = ""] = hash.replace(/^#\/?/, "").split("?");
  const parts = path.split("/").filter((part) => part !== "");
  return { parts: parts.map(decode), query: Object.fromEntries(new URLSearchParams(query)) };
}

function decode(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part; // a stray percent sign
  }
}

export function hashOf(parts, query = {}) {
  const text = new URLSearchParams(Object.entries(query).filter(([, value]) => value)).toString();
  return `#/${parts.map(encodeURIComponent).join("/")}${text ? `?${text}` : ""}`;
}

// show(route) at the start and at each change.
export function startRouter(show) {
  const route = () => show(parseHash(location.hash));
  addEventListener("hashchange", route);
  route();
}
