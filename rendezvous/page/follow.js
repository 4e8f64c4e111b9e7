// Follows a list of the service as it grows, for as long as the reader looks at it.
//
// Promises: onRows(rows) gets every row after `after`, once, in order, whatever happens to the connection: it is taken up again
// with Last-Event-ID. A stream that says nothing for longer than the service's keep-alive is taken for dead. While the page is
// hidden the stream is closed: browsers allow few connections to one host, and a phone in a pocket should sleep.
import { address, get, withToken } from "./api.js";
import { isAway, serviceAnswered, serviceLost, serviceThere } from "./connection.js";
import { EventStreamParser } from "./event_stream.js";
import { forgetToken } from "./session.js";
import { standingBy } from "./standing_by.js";

const SILENCE_MS_MAX = 45000; // the service sends a comment every 15 s
const HIDDEN_MS = 5000;
const LATE_MS = 4000;
const POLL_MS = 2000; // of a service that stands by, which has no streams
const POLL_ROWS = 1000;
const PAUSE_MS = [300, 1000, 2000, 5000, 10000];

function pageVisible() {
  if (!document.hidden) return Promise.resolve();
  return new Promise((resolve) => {
    document.addEventListener("visibilitychange", resolve, { once: true });
  });
}

// Reads one connection to its end. True when it ended by the service's will.
async function readStream(reply, stop, take) {
  const parser = new EventStreamParser();
  const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
  let silence = 0;
  const listen = () => {
    clearTimeout(silence);
    silence = setTimeout(() => stop.abort(), SILENCE_MS_MAX);
  };
  try {
    for (;;) {
      listen();
      const { done, value } = await reader.read();
      if (done) return true;
      const events = parser.feed(value);
      if (events.length > 0) take(events);
    }
  } finally {
    clearTimeout(silence);
  }
}

// `isOver()`: the list will not grow any more, so that a stream that ends stays closed.
export function follow(path, { after, onRows, isOver = () => false }) {
  let closed = false;
  let last = after;
  let stop = new AbortController();
  let failures = 0;
  let askedLate = false;
  let hiding = 0;

  const onVisibility = () => {
    clearTimeout(hiding);
    if (document.hidden) hiding = setTimeout(() => stop.abort(), HIDDEN_MS);
  };
  document.addEventListener("visibilitychange", onVisibility);

  const take = (events) => {
    if (closed) return; // whoever goes on from here has them from another stream
    failures = 0;
    last = Number(events.at(-1).id);
    onRows(events.map((event) => JSON.parse(event.data)));
  };

  // The rows that came since, from a service that stands by: the list's only key beside its tokens has them.
  async function ask() {
    const { next_page_token: more, ...lists } = await get(path, { after: last, limit: POLL_ROWS }, stop.signal);
    const rows = Object.values(lists).find(Array.isArray);
    if (closed) return null;
    if (rows.length > 0) {
      last = rows.at(-1).id;
      onRows(rows);
    }
    return more ? 0 : isOver() ? null : POLL_MS;
  }

  // How long to wait before the next try; null: there is none.
  async function once() {
    stop = new AbortController();
    try {
      if (standingBy() !== null) return await ask();
      const reply = await fetch(address(path, { follow: 1 }), {
        headers: withToken({ Accept: "text/event-stream", "Last-Event-ID": String(last) }),
        cache: "no-store",
        signal: stop.signal,
      });
      if (reply.status === 401) forgetToken("This token is no longer good.");
      if (reply.status >= 400 && reply.status < 500 && reply.status !== 429) return null;
      if (reply.status === 503 && reply.headers.has("Holdfast-Leader")) return await ask();
      if (!reply.ok) throw new Error(`status ${reply.status}`);
      serviceAnswered();
      await readStream(reply, stop, take);
      if (!isOver()) return PAUSE_MS[1];
      if (askedLate) return null;
      askedLate = true; // a worker's last lines may come after the end
      return LATE_MS;
    } catch {
      if (closed || document.hidden) return 0;
      // A connection may break by itself; a second that breaks at once means that nobody is there.
      if (failures > 0) serviceLost();
      failures += 1;
      return PAUSE_MS[Math.min(failures, PAUSE_MS.length) - 1];
    }
  }

  (async () => {
    while (!closed) {
      const pause = await once();
      if (closed || pause === null) break;
      await new Promise((resolve) => setTimeout(resolve, pause));
      if (isAway()) await serviceThere();
      await pageVisible();
    }
  })();

  return {
    close() {
      closed = true;
      clearTimeout(hiding);
      document.removeEventListener("visibilitychange", onVisibility);
      stop.abort();
    },
  };
}
