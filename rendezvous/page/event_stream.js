// Server-sent events, read from a stream of text (HTML's standard, section "Interpreting an event stream"), because the
// browser's own EventSource cannot send an Authorization header.

export class EventStreamParser {
  #rest = "";
  #id = "";
  #event = "";
  #data = [];

  // The events that `text` completes, as {id, event, data}. Comments are swallowed.
  feed(text) {
    const events = [];
    // A \r at the end may be the first half of \r\n: it waits for what follows.
    const lines = (this.#rest + text).split(/\r\n|\n|\r(?!$)/);
    this.#rest = lines.pop();
    for (const line of lines) {
      if (line === "") this.#dispatch(events);
      else this.#field(line);
    }
    return events;
  }

  #field(line) {
    const colon = line.indexOf(":");
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (name === "data") this.#data.push(value);
    else if (name === "event") this.#event = value;
    else if (name === "id" && !value.includes("\0")) this.#id = value;
  }

  #dispatch(events) {
    if (this.#data.length > 0) events.push({ id: this.#id, event: this.#event || "message", data: this.#data.join("\n") });
    this.#event = "";
    this.#data = [];
  }
}
