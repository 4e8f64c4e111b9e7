// A service that only pretends: as many jobs and points as are asked for, answered as the real one answers. The page's files
// come straight from rendezvous/page/, so that a change is seen by loading again; and smoothness.mjs measures against it.
//
//   node tests/page/fake_service.mjs [--port 7079] [--jobs 10000] [--points 1200] [--live 10]     --live: points a second
//
// Any token but "worker" signs in; "read" and "submit" have those roles.
import { readFile } from "node:fs/promises";
import http from "node:http";
import path from "node:path";
import { fileURLToPath } from "node:url";

const PAGE = path.join(path.dirname(fileURLToPath(import.meta.url)), "../../rendezvous/page");
const TYPES = { html: "text/html", css: "text/css", js: "text/javascript", svg: "image/svg+xml" };
const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
  "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
const STATES = ["running", "succeeded", "succeeded", "failed", "queued", "waiting", "paused", "cancelled"];
const PAGE_ROWS = 50;

const ago = (seconds) => new Date(Date.now() - 1000 * seconds).toISOString();
const lossAt = (step) => 1.9 + 8 * Math.exp(-step / 300) + 0.08 * Math.sin(step * 12.9898) * Math.cos(step * 4.1);

function spec(number) {
  return {
    name: number % 3 ? `books-${number}` : "",
    labels: number % 2 ? { team: "nlp" } : {},
    train_data_path: "data/train.bin",
    valid_data_path: "data/val.bin",
    model: "tiny",
    nodes: 3,
    min_nodes: 1,
    max_nodes: 12,
    total_steps: 5000,
    batch_size: 4,
    learning_rate: 6e-4,
    seed: 7,
    resume_from: "",
  };
}

function summary(number, step) {
  const state = STATES[number % STATES.length];
  const running = state === "running";
  return {
    id: `j${number}`,
    name: spec(number).name,
    labels: spec(number).labels,
    state,
    step: running ? step : (number * 131) % 5000,
    total_steps: 5000,
    reason:
      {
        failed: "the loss was not finite 10 times in a row, from step 2,310 on",
        waiting: "1 worker is there, min_nodes is 2",
        queued: "3 jobs come first",
      }[state] ?? "",
    generation: 4,
    world_size: running ? 3 : 0,
    nodes: 3,
    restarts: 3,
    refused_steps: 0,
    loss: lossAt(step),
    validation_loss: 2.0413,
    tokens_per_second: running ? 18412.3 : null,
    eta_s: running ? (5000 - step) / 5 : null,
    priority: 0,
    latest_checkpoint: { step: 4100, age_s: 184, store: "", state_hash: "a0b1c2d3e4f5" },
    submitted_at: ago(90 * (20000 - number)),
    started_at: ago(3700),
    finished_at: running ? null : ago(60),
    state_hash: null,
    state_hash_step: null,
  };
}

function point(step, steps = 1) {
  const loss = lossAt(step);
  return {
    id: step,
    step,
    steps,
    time: ago(0),
    generation: 1 + Math.floor(step / 1500),
    world_size: 3 - (Math.floor(step / 1500) % 2),
    loss,
    loss_min: loss - 0.1 * (steps > 1),
    loss_max: loss + 0.1 * (steps > 1),
    validation_loss: step % 100 < steps ? loss + 0.1 : null,
    learning_rate: 6e-4 * Math.min(1, step / 100) * (0.55 + 0.45 * Math.cos(Math.min(1, step / 5000) * Math.PI)),
    gradient_norm: 0.8 + 4 * Math.exp(-step / 200) + 0.2 * Math.sin(step),
    tokens_per_second: 18000 + 900 * Math.sin(step / 7),
    step_s: 0.2 + 0.01 * Math.sin(step / 3),
    communication_s: 0.05 + 0.005 * Math.cos(step / 5),
  };
}

const FIELDS = [
  ["name", "string", "", "at most 100 bytes", "A name for people; commands take it where they take a job id"],
  ["labels", "map", "", "at most 32, keys of letters, digits and ._/-", "Words to find the job by, as key=value"],
  ["train_data_path", "string", "required", "at most 4096 bytes", "Token file to train on, as the workers see it"],
  ["nodes", "integer", "1", "1 to 1024", "Nominal number of workers", { min: 1, max: 1024 }],
  ["total_steps", "integer", "1000", "1 to 1000000000", "Steps to train for", { min: 1, max: 1e9 }],
  ["model", "string", "tiny", "tiny, small", "Sets the five fields below", { choices: ["tiny", "small"] }],
  ["n_embd", "integer", "the model's", "1 to 65536", "Channels", { min: 1, max: 65536 }],
  ["learning_rate", "number", "0.0006", "above 0, at most 10", "Largest learning rate", { min: 0, max: 10 }],
  ["checkpoint_every", "integer", "100", "0 to 1000000000", "Steps between checkpoints", { min: 0, max: 1e9 }],
].map(([name, type, value, range, help, more]) => ({
  name,
  type,
  default: value,
  default_is_a_value: !/[ r]/.test(value),
  range,
  help,
  ...more,
}));

const PLAN = {
  nodes: 2,
  verdict: "2 nodes do 1.31x of what one does alone with --wire_dtype int16 (1.02x as asked).",
  comparison: [
    ["one node alone", "16 x 8", 1],
    ["as asked", "16 x 8, int32, overlap on", 1.02],
    ["the same training", "16 x 8, int16, overlap on", 1.31],
  ].map(([name, settings, share]) => ({ name, settings, tokens_per_s: 273000 * share, of_one_node: share })),
  microbatch_s: 0.03,
  device_source: "measured by job j3 on 2026-11-20, rank 0, microbatches of 16 sequences",
  link_bytes_per_s: 117.5e6,
  link_source: "measured by job j3 on 2026-11-20, the bytes of a sync over the time rank 0 waited for it",
  device_memory_bytes: 34e9,
  memory_source: "the device of w1",
  same_training: { changes: { checkpoint_every: 200 } },
  notes: ["as many tokens a step and as exact a sum, but other bits"],
};

export function fakeService({ jobs = 12, points = 1200, live = 10 } = {}) {
  const began = Date.now();
  const stepNow = () => points + Math.floor(((Date.now() - began) / 1000) * live);
  const events = Array.from({ length: 60 }, (_, i) => ({
    id: i + 1,
    time: ago(3600 - 50 * i),
    job: "j1",
    worker: i % 4 === 2 ? "w2" : null,
    generation: 1 + Math.floor(i / 20),
    actor: null,
    kind: ["job_submitted", "generation_formed", "fault_reported", "checkpoint_committed"][i % 4],
    message: [
      "5,000 steps of 12 microbatches",
      "generation forms of w1, w2 and w3, from the memory of w1",
      "w1 (rank 0) lost its connection to w2 (rank 1)",
      `step ${100 * i}: 18.5 MB in 1 shard, written in 0.49 s`,
    ][i % 4],
  }));
  const log = (id) => ({
    id,
    time: ago(0),
    job: "j1",
    worker: `w${1 + (id % 3)}`,
    level: id % 17 ? "info" : "warning",
    text: `step ${id}: the ring of 3 is up, 0.21 s a step`,
  });

  const answers = {
    whoami: ({ token }) => ({
      token: { id: "t1", name: `${token}'s`, role: ["read", "submit"].includes(token) ? token : "admin" },
    }),
    services: () => ({
      services: [
        { id: "a1", address: "http://node1:7070", leads: true },
        { id: "b2", address: "http://node2:7070", leads: false },
      ],
      term: 3,
      replicas: 1,
      synchronous_replicas: 1,
    }),
    nodes: () => ({
      nodes: Array.from({ length: 4 }, (_, i) => ({
        id: `w${i + 1}`,
        node: `rack${i}`,
        pid: 100 + i,
        device: i ? "cpu" : "hip",
        device_model: i ? "EPYC 9654" : "Radeon AI PRO R9700",
        threads: 8,
        memory_bytes: 34e9,
        load: {
          busy: i === 3 ? null : 0.9,
          memory_used_bytes: i === 3 ? null : 12e9,
          watts: i ? null : 212,
          celsius: i ? null : 61,
        },
        state: i === 3 ? "lost" : "alive",
        phase: i === 3 ? null : "active",
        last_seen_s: i === 3 ? 340 : 0.4,
        held_back_s: null,
        held_back_reason: null,
        job: i === 3 ? null : "j1",
        generation: 4,
        step: stepNow(),
      })),
      next_page_token: null,
    }),
    job_spec: () => ({ fields: FIELDS }),
    jobs({ query }) {
      const all = Array.from({ length: jobs }, (_, i) => summary(jobs - i, stepNow())).filter(
        (job) =>
          (!query.get("state") || job.state === query.get("state")) && (!query.get("name") || job.name === query.get("name")),
      );
      const from = Number(query.get("page_token") ?? 0);
      const limit = Number(query.get("limit") ?? PAGE_ROWS);
      return { jobs: all.slice(from, from + limit), next_page_token: from + limit < all.length ? String(from + limit) : null };
    },
    events: () => ({ events, next_page_token: null }),
    logs: () => ({ logs: Array.from({ length: 200 }, (_, i) => log(i + 1)), next_page_token: null }),
    metrics({ query }) {
      const most = Number(query.get("points") ?? 1000);
      const now = stepNow();
      const each = Math.max(1, Math.ceil(now / most));
      return {
        metrics: Array.from({ length: Math.floor(now / each) }, (_, i) => point((i + 1) * each, each)),
        thinned: each > 1,
        last_id: now,
      };
    },
    checkpoints: ({ id }) => ({
      checkpoints: [3900, 4000, 4100].map((step) => ({
        job: id,
        step,
        generation: 3,
        worker: "w1",
        created_at: ago(5000 - step),
        raw_bytes: 361e6,
        stored_bytes: 302e6,
        shards: 3,
        stall_s: 0.015,
        write_s: 0.49,
        state_hash: "a0b1c2d3e4f5a6b7",
        readable: true,
      })),
      next_page_token: null,
    }),
    job({ id }) {
      const number = Number(id.slice(1));
      const shown = summary(number, stepNow());
      const workers =
        shown.state === "running"
          ? [0, 1, 2].map((rank) => ({
              id: `w${rank + 1}`,
              rank,
              node: `rack${rank}`,
              device: "cpu",
              phase: "active",
              step: stepNow(),
              owned_bytes: [995518464, 995518464, 994469888][rank],
            }))
          : [];
      return {
        ...shown,
        spec: spec(number),
        stage: "running",
        wanted: { min_nodes: 1, nodes: 3, max_nodes: 12, replicas: 3 },
        refused: [],
        workers,
        division: workers.length ? { copies: 2, copies_wanted: 3, nodes: 2, bytes_to_come: 73400320 } : null,
      };
    },
  };

  function stream(list, reply) {
    reply.writeHead(200, { "Content-Type": "text/event-stream", "Cache-Control": "no-store" });
    let id = stepNow();
    const send = (event, data) => reply.write(`id: ${data.id}\nevent: ${event}\ndata: ${JSON.stringify(data)}\n\n`);
    const timer = setInterval(() => {
      while (id < stepNow()) {
        id += 1;
        if (list === "metrics") send("metric", point(id));
        else if (list === "logs") send("log", log(id));
      }
    }, 100);
    reply.on("close", () => clearInterval(timer));
    reply.flushHeaders();
  }

  const say = (reply, status, body) => {
    reply.writeHead(status, { "Content-Type": status < 400 ? "application/json" : "application/problem+json" });
    reply.end(JSON.stringify(body));
  };
  async function page(name, reply) {
    try {
      const bytes = await readFile(path.join(PAGE, path.basename(name)));
      reply.writeHead(200, {
        "Content-Type": TYPES[name.split(".").at(-1)],
        "Content-Security-Policy": POLICY,
        "Cache-Control": "no-cache",
      });
      reply.end(bytes);
    } catch {
      say(reply, 404, { status: 404, title: "not found", detail: name });
    }
  }
  async function submit(request, query, reply) {
    let text = "";
    for await (const piece of request) text += piece;
    const wanted = JSON.parse(text);
    const errors = [];
    if (!wanted.train_data_path)
      errors.push({ field: "train_data_path", message: "is required: the token file to train on, such as data/train.bin" });
    if (wanted.n_embd % 6) errors.push({ field: "n_embd", message: "6 heads do not divide it: choose a multiple" });
    if (errors.length > 0) say(reply, 400, { status: 400, title: "invalid spec", detail: "…", code: "invalid_spec", errors });
    else if (query.has("dry_run"))
      say(reply, 200, {
        spec: wanted,
        warnings: ["no worker has a GPU"],
        would: "begin at once on 3 workers, 2,048 tokens a step",
      });
    else say(reply, 201, answers.job({ id: "j8" }));
  }

  // GGUF is refused, as the real one refuses it without a tokenizer.
  async function prepare(request, id, step, reply) {
    let text = "";
    for await (const piece of request) text += piece;
    const { format } = JSON.parse(text);
    const detail =
      "GGUF has the tokenizer inside, and the service finds none. Run this where it is: " +
      `holdfast ckpt export job:${id}@${step} --format gguf --dtype float32 --tokenizer DIR --output ${id}-gguf. ` +
      "(the job's train_data_path names no folder of the service's machine)";
    if (format === "gguf") return say(reply, 409, { status: 409, title: "Conflict", detail, code: "no_tokenizer" });
    await new Promise((resolve) => setTimeout(resolve, 1500));
    return say(reply, 201, { ticket: "t", file: `${id}-step-${step}-${format}.tar`, bytes: 498e6, good_for_s: 30 });
  }

  return http.createServer((request, reply) => {
    const { pathname, searchParams: query } = new URL(request.url, "http://fake");
    if (pathname === "/") return page("index.html", reply);
    if (pathname.startsWith("/page/")) return page(pathname, reply);
    if (pathname === "/healthz" || pathname === "/readyz") return say(reply, 200, {});
    if (pathname.startsWith("/v1/downloads/")) {
      reply.writeHead(200, { "Content-Type": "application/x-tar", "Content-Disposition": 'attachment; filename="model.tar"' });
      return reply.end("pretended");
    }
    const token = request.headers.authorization?.replace("Bearer ", "") ?? "";
    if (token === "" || token === "wrong")
      return say(reply, 401, { status: 401, title: "no token", detail: "this token is not one of this service's" });
    const [, , list, id, part, step, what] = pathname.split("/");
    if (request.method === "POST" && what === "export") return prepare(request, id, step, reply);
    if (request.method === "POST" && list === "plan") return say(reply, 200, PLAN);
    if (request.method === "POST")
      return list === "jobs" && !id ? submit(request, query, reply) : say(reply, 202, answers.job({ id: id ?? "j8" }));
    if (query.has("follow")) return stream(part, reply);
    const answer = answers[part ?? (list === "jobs" && id ? "job" : list)];
    return answer
      ? say(reply, 200, answer({ token, query, id }))
      : say(reply, 404, { status: 404, title: "not found", detail: `there is nothing at ${pathname}` });
  });
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const options = {};
  for (let i = 2; i + 1 < process.argv.length; i += 2)
    options[process.argv[i].replace(/^--/, "")] = Number(process.argv[i + 1]);
  const { port = 7079, ...rest } = options;
  fakeService(rest).listen(port, "127.0.0.1", () => console.log(`pretending at http://127.0.0.1:${port}`));
}
