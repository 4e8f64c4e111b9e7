// Sends a spec to the service: to hear what it would do, and to have it done, once.
//
// An Idempotency-Key belongs to what is sent: the same spec sent again (a double click, a lost answer) is the same job, another
// spec is another.
import { request } from "./api.js";

function newKey() {
  // Not crypto.randomUUID: browsers keep that from pages over plain HTTP.
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

export function submission() {
  let asking = null;
  let key = { text: null, value: "" };
  return {
    // {spec, warnings, would}. Throws Problem; AbortError where a newer question has taken its place.
    async wouldDo(text) {
      asking?.abort();
      asking = new AbortController();
      const { status, json } = await request("POST", "jobs", { query: { dry_run: 1 }, body: text, signal: asking.signal });
      if (status !== 200) throw new Error(`a dry run was answered with ${status}`);
      return json;
    },
    // The job. Throws Problem or Away.
    async submit(text) {
      asking?.abort();
      if (key.text !== text) key = { text, value: newKey() };
      return (await request("POST", "jobs", { body: text, headers: { "Idempotency-Key": key.value } })).json;
    },
    close: () => asking?.abort(),
  };
}
