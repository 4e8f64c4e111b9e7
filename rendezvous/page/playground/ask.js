// Questions to the server that the page came from, in the form of OpenAI's API.
import { EventStreamParser } from "./event_stream.js";
import { token } from "./session.js";

// A question that the server refuses, in its words; `status` 401: it wants another token.
export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

async function answer(path, options = {}) {
  const headers = { ...options.headers, ...(token() ? { Authorization: `Bearer ${token()}` } : {}) };
  let response;
  try {
    response = await fetch(path, { ...options, headers });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused(0, "The server does not answer. Does it still run?");
  }
  if (response.ok) return response;
  const said = await response.text();
  let message = said;
  try {
    message = JSON.parse(said).error.message;
  } catch {
    // not this API's: a proxy's, say
  }
  throw new Refused(response.status, message || `HTTP status ${response.status}`);
}

export async function models() {
  return (await (await answer("v1/models")).json()).data;
}

export async function metrics() {
  return (await answer("metrics")).text();
}

// Calls onPart(choice, whole) for each part of a text as it is written. Throws Refused, or AbortError when `signal` says so.
export async function writeText(fields, signal, onPart) {
  const response = await answer("v1/completions", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ ...fields, stream: true }),
    signal,
  });
  const parser = new EventStreamParser();
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) throw new Refused(0, "The server ended in the middle of the text.");
    for (const { data } of parser.feed(value)) {
      if (data === "[DONE]") return;
      const part = JSON.parse(data);
      if (part.choices.length > 0) onPart(part.choices[0], part);
    }
  }
}
