// The page's pure modules, in the browser that runs them, as the service serves them.
import assert from "node:assert/strict";
import test from "node:test";
import { openPage, withBrowser } from "./browser.mjs";

withBrowser();

// Runs `body(module, argument)` in the page.
async function inPage(t, file, body, argument) {
  const page = await openPage(t, "", { token: null });
  return page.evaluate(`import("./page/${file}").then((module) => (${body})(module, ${JSON.stringify(argument ?? null)}))`);
}

test("events are read the same wherever the stream is cut", async (t) => {
  const stream =
    ': hello\n\nid: 1\nevent: log\ndata: {"a":1}\n\nid: 2\r\ndata: x\r\ndata: y\r\n\r\n' +
    "retry: 5\ndata\n\nid: 3\ndata: unfinished";
  const said = await inPage(
    t,
    "event_stream.js",
    ({ EventStreamParser }, text) => {
      const answers = new Set();
      for (let cut = 0; cut <= text.length; cut += 1) {
        const parser = new EventStreamParser();
        answers.add(JSON.stringify([...parser.feed(text.slice(0, cut)), ...parser.feed(text.slice(cut))]));
      }
      const slow = new EventStreamParser();
      answers.add(JSON.stringify([...text].flatMap((letter) => slow.feed(letter))));
      return [...answers];
    },
    stream,
  );
  assert.equal(said.length, 1);
  assert.deepEqual(JSON.parse(said[0]), [
    { id: "1", event: "log", data: '{"a":1}' },
    { id: "2", event: "message", data: "x\ny" },
    { id: "2", event: "message", data: "" },
  ]);
});

test("a curve of a long run stays short, keeps its means, extremes and generations", async (t) => {
  const said = await inPage(t, "curve_points.js", ({ CurvePoints }) => {
    const points = new CurvePoints(1000);
    let most = 0;
    for (let step = 1; step <= 100000; step += 1) {
      points.append({ step, generation: 1 + Math.floor(step / 30000), loss: step === 777 ? 99 : step % 2, world_size: 2 });
      most = Math.max(most, points.points.length);
    }
    const all = points.points;
    const weight = all.reduce((sum, point) => sum + point.steps, 0);
    return {
      most,
      weight,
      mean: all.reduce((sum, point) => sum + point.loss * point.steps, 0) / weight,
      largest: Math.max(...all.map((point) => point.loss_max)),
      ascending: all.every((point, i) => i === 0 || all[i - 1].step < point.step),
      last: points.last.step,
      marks: points.marks.map((mark) => [mark.generation, mark.step]),
    };
  });
  assert.ok(said.most <= 1001, `${said.most} points`);
  assert.equal(said.weight, 100000);
  assert.ok(Math.abs(said.mean - (50000 + 98) / 100000) < 1e-9);
  assert.equal(said.largest, 99);
  assert.equal(said.ascending, true);
  assert.equal(said.last, 100000);
  assert.deepEqual(said.marks, [
    [1, 1],
    [2, 30000],
    [3, 60000],
    [4, 90000],
  ]);
});

test("of several changes of sight that come at once the last one counts", async (t) => {
  const said = await inPage(t, "sight.js", ({ watchSight }) => {
    let observer;
    window.IntersectionObserver = class {
      constructor(deliver, options) {
        observer = { deliver, margin: options.rootMargin, of: [] };
      }
      observe(element) {
        observer.of.push(element);
      }
      disconnect() {
        observer.of = [];
      }
    };
    const told = [];
    const end = watchSight(document.body, "300px", (seen) => told.push(seen));
    const watched = observer.of[0] === document.body;
    observer.deliver([{ isIntersecting: true }]);
    observer.deliver([{ isIntersecting: false }, { isIntersecting: true }]);
    observer.deliver([{ isIntersecting: true }, { isIntersecting: false }]);
    end();
    return { told, watched, margin: observer.margin, left: observer.of.length };
  });
  assert.deepEqual(said, { told: [true, true, false], watched: true, margin: "300px", left: 0 });
});

test("steps that are done again take the place of what was voided", async (t) => {
  const said = await inPage(t, "curve_points.js", ({ CurvePoints }) => {
    const points = new CurvePoints();
    for (let step = 1; step <= 10; step += 1) points.append({ step, generation: step < 6 ? 1 : 2, loss: step });
    points.append({ step: 4, generation: 3, loss: "nan" });
    return { rows: points.points.map((point) => [point.step, point.loss]), marks: points.marks.map((mark) => mark.generation) };
  });
  assert.deepEqual(said.rows, [
    [1, 1],
    [2, 2],
    [3, 3],
    [4, null],
  ]);
  assert.deepEqual(said.marks, [1, 3]);
});

test("what is typed becomes the JSON of a spec", async (t) => {
  const said = await inPage(t, "spec_values.js", ({ complaint, specText, textOf }) => {
    const integer = { name: "seed", type: "integer", default: "0", default_is_a_value: true, min: 0, range: "at least 0" };
    const rate = {
      name: "learning_rate",
      type: "number",
      default: "0.0006",
      default_is_a_value: true,
      min: 0,
      max: 10,
      above_min: true,
      range: "above 0, at most 10",
    };
    const labels = { name: "labels", type: "map", default: "" };
    const path = { name: "path", type: "string", default: "required", max_bytes: 5 };
    return {
      json: specText([
        [integer, " 9223372036854775807 "],
        [rate, "3e-4"],
        [labels, "team=nlp, a=b=c"],
        [path, 'a "b"'],
        [integer, ""],
      ]),
      wrong: [
        complaint(integer, "1.5"),
        complaint(integer, "-1"),
        complaint(rate, "0"),
        complaint(rate, "1e"),
        complaint(labels, "team"),
        complaint(path, " "),
        complaint(path, "ääää"),
      ],
      right: [complaint(integer, "007"), complaint(rate, ".5"), complaint(labels, "a="), complaint(path, "x")],
      text: [textOf(integer, 0), textOf(integer, 7), textOf(labels, { a: "b", c: "d" })],
    };
  });
  assert.equal(
    said.json,
    '{"seed":9223372036854775807,"learning_rate":0.0003,"labels":{"team":"nlp","a":"b=c"},"path":"a \\"b\\""}',
  );
  assert.ok(
    said.wrong.every((text) => text !== ""),
    said.wrong.join("|"),
  );
  assert.deepEqual(said.right, ["", "", "", ""]);
  assert.deepEqual(said.text, ["", "7", "a=b, c=d"]);
});

test("numbers and times in words", async (t) => {
  const said = await inPage(t, "words.js", (words) => ({
    durations: [0.042, 0.42, 12, 200, 18120, 187200, null].map(words.duration),
    counts: [1234567, null].map(words.count),
    compact: [950, 18412, 1.25e6, 2.5].map(words.compact),
    measures: [2.31234, 0, 1e-7, 12.3456].map(words.measure),
    percents: [
      [1, 2],
      [9999, 10000],
      [10000, 10000],
      [0, 3],
      [1, 0],
    ].map(([part, whole]) => words.percent(part, whole)),
    bytes: [999, 18.5e6, 3e9].map(words.bytes),
  }));
  assert.deepEqual(said, {
    durations: ["42 ms", "0.42 s", "12 s", "3m 20s", "5h 02m", "2d 04h", "–"],
    counts: ["1,234,567", "–"],
    compact: ["950", "18.4k", "1.25M", "2.5"],
    measures: ["2.3123", "0.0000", "1.00e-7", "12.346"],
    percents: ["50%", "99.9%", "100%", "0.0%", "–"],
    bytes: ["999 B", "18.5 MB", "3.0 GB"],
  });
});

test("a route is read from the address and written to it", async (t) => {
  const said = await inPage(t, "router.js", ({ hashOf, parseHash }) => [
    parseHash(""),
    parseHash("#/jobs/j1/logs?x=a%26b"),
    parseHash("#/jobs/%E0%A4%A"),
    hashOf(["jobs", "a b"], { state: "", name: "x&y" }),
  ]);
  assert.deepEqual(said, [
    { parts: [], query: {} },
    { parts: ["jobs", "j1", "logs"], query: { x: "a&b" } },
    { parts: ["jobs", "%E0%A4%A"], query: {} },
    "#/jobs/a%20b?name=x%26y",
  ]);
});
