"""Texts from a model: tokens a second of `holdfast serve-model` beside llama.cpp's, with one and with many texts at once."""
import collections
import json
import os
import re
import subprocess
import threading
import time
import urllib.request

import testbed
from cases import exchange

TITLE = "Texts from a model: tokens a second"
STREAMS, QUICK_STREAMS = (1, 8, 16, 32), (1, 8)
PROMPT, TOKENS = 32, 96
MEASURED_S = 2
FORMS = {"int8": "q8_0", "int4": "q4_0"}  # llama.cpp's beside ours
NOTE = ("The likeliest tokens after prompts of {prompt} tokens, {tokens} of each text, so many texts at once; tokens a second from the first token of the last "
        "text that began to the end of the first that ended, the median of {seconds} s of such rounds. Peer: llama.cpp under JavaScript (node-llama-cpp {version}), the same model as GGUF, sequences of one "
        "context; as installed with as many threads; at its best with as many or fewer, with or without flash attention, whichever is quickest; beside bfloat16 in float16 or bfloat16, whichever is quicker, beside int8 in q8_0, beside int4 in "
        "q4_0. Parameters are random where nothing is trained: the work is the same. Memory: of the whole process, with the most texts at once.")


class Served:
    """`holdfast serve-model` over a job's checkpoint."""

    def __init__(self, cluster, job, data, precision, threads, name, *more):
        self.log = os.path.join(cluster.folder, f"{name}.log")
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen([f"{testbed.BIN}/holdfast", "serve-model", "--from", f"job:{job}", "--tokenizer", data, "--precision", precision, "--threads",
                                             str(threads), "--listen", "127.0.0.1:0", *more], stdout=log, stderr=log, env=cluster.environment({"HOLDFAST_SERVER": cluster.server}))
        self.job, self.base = job, None
        while self.base is None and self.process.poll() is None:
            with open(self.log, encoding="utf-8") as log:
                found = re.search(r" at (http://\S+/v1): ", log.read())
            self.base = found and found.group(1)
            time.sleep(0.1)
        if self.base is None:
            raise SystemExit(f"bench/run serving: the model was not served; see {self.log}")

    def stream(self, number, tokens, at_token):
        """One text as server-sent events; at_token(how many) whenever some come."""
        self.stream_of([(7 * i + 13 * number) % 200 + 3 for i in range(PROMPT)], tokens, at_token)

    def stream_of(self, prompt, tokens, at_token):
        fields = {"model": self.job, "prompt": prompt, "max_tokens": tokens, "temperature": 0, "stream": True, "logprobs": 0}
        request = urllib.request.Request(f"{self.base}/completions", json.dumps(fields).encode())
        with urllib.request.urlopen(request, timeout=600) as answer:
            for line in answer:
                if line.startswith(b"data: {"):
                    at_token(len(json.loads(line[6:])["choices"][0]["logprobs"]["tokens"]))

    def tokens_per_s(self, streams, tokens=TOKENS):
        """The median of as many rounds as take a while: one round of a small model is over in a blink."""
        rates, taken = [], 0
        while taken < MEASURED_S:
            rate, seconds = self.round(streams, tokens)
            rates.append(rate)
            taken += seconds
        return testbed.median(rates)

    def round(self, streams, tokens):
        """(tokens a second, the seconds of which that was measured)."""
        lock, state = threading.Lock(), {"began": 0, "ended": None, "last_begin": 0.0, "written": 0}

        def write(number):
            count = 0

            def at_token(more):
                nonlocal count
                with lock:
                    if count == 0:
                        state["began"], state["last_begin"] = state["began"] + 1, time.monotonic()
                    count += more
                    if state["began"] == streams and state["ended"] is None:
                        state["written"] += more

            self.stream(number, tokens, at_token)
            if count != tokens:
                raise SystemExit(f"bench/run serving: a text of {tokens} tokens ended after {count}")
            with lock:
                state["ended"] = state["ended"] or time.monotonic()

        testbed.beside_each_other(*((write, number) for number in range(streams)))
        seconds = state["ended"] - state["last_begin"]
        return state["written"] / seconds, seconds

    def memory_mb(self, which="VmHWM"):
        with open(f"/proc/{self.process.pid}/status", encoding="utf-8") as file:
            return int(re.search(rf"{which}:\s+(\d+)", file.read())[1]) / 1e3

    def close(self):
        self.process.terminate()
        self.process.wait()


def llama(model, streams, threads, flash):
    script = os.path.join(testbed.ROOT, "bench", "peers", "llama", "throughput.mjs")
    return json.loads(testbed.output_of(["node", script, exchange.MODULES, model, streams, TOKENS, threads, flash, PROMPT, MEASURED_S]))


def quantized(form, model):
    """The file with its matrices in this form of llama.cpp's."""
    target = model.replace("model.gguf", f"model-{form}.gguf")
    testbed.output_of([testbed.PYTHON, os.path.join(testbed.ROOT, "bench", "peers", "llama", "quantize.py"), form, model, target])
    return target


def checkpoint(cluster, data, size):
    """A job with one checkpoint of such a model, after one step."""
    cluster.start_workers("w1")
    job = cluster.submit(train_data_path=f"{data}/train.bin", model=size, vocab_size=50257, block_size=256, batch_size=1, global_batch_size=1, total_steps=1,
                         warmup_steps=1, dtype="bfloat16", eval_every=0, checkpoint_every=1)
    cluster.wait_state(job, "succeeded", timeout_s=600)
    cluster.kill_worker("w1")
    return job


def at_its_best(figures, way, better):
    """A row's peer, of its figures by (texts at once, threads, flash attention, form): `way` is as installed, and those with fewer threads
    were measured before."""
    return dict(zip(testbed.peer_python.SETUPS, (figures[way], better(figures.values())))) if figures else None


def exports_of(cluster, job, precision, exported):
    """llama.cpp's files of the job's model beside ours in this precision, by form; the first is the usual one."""
    if precision in FORMS:
        return {FORMS[precision]: quantized(FORMS[precision], exported["bfloat16"]["float16"])}
    forms = ("float16", "bfloat16") if precision == "bfloat16" else (precision,)
    return {form: os.path.join(exchange.export(cluster, job, "gguf", form), "model.gguf") for form in forms}


def rows_of_model(cluster, data, size, options, note):
    job, exported = checkpoint(cluster, data, size), {}
    for precision in ("bfloat16", "float32", *FORMS):
        models = exported[precision] = exports_of(cluster, job, precision, exported)
        usual, ways = next(iter(models)), [(flash, form) for form in models for flash in (0, 1)] if exchange.installed_version() else []
        peer = collections.defaultdict(list)  # (texts at once, threads, flash attention, form) -> what it said
        for threads in (1, 2):
            served = Served(cluster, job, data, precision, threads, f"{size}-{precision}-{threads}")
            try:
                for streams in QUICK_STREAMS if options.quick else STREAMS:
                    ours = []
                    for _ in range(options.repeat):
                        ours.append(served.tokens_per_s(streams))
                        for flash, form in ways:
                            peer[streams, threads, flash, form].append(llama(models[form], streams, threads, flash))
                    theirs = {which: testbed.median([run["tokens_per_s"] for run in runs]) for which, runs in peer.items() if which[0] == streams}
                    yield testbed.row(f"{size}, {precision}, {threads} threads, {streams} at once", "tokens/s", testbed.median(ours),
                                      peer=at_its_best(theirs, (streams, threads, 0, usual), max), higher_is_better=True, note=note)
                memory = {which: testbed.median([run["memory_mb"] for run in runs]) for which, runs in peer.items() if which[:2] == (streams, threads)}
                yield testbed.row(f"{size}, {precision}, {threads} threads: memory", "MB", served.memory_mb(), peer=at_its_best(memory, (streams, threads, 0, usual), min), note=note)
            finally:
                served.close()


def measure(options):
    note = NOTE.format(prompt=PROMPT, tokens=TOKENS, seconds=MEASURED_S, version=exchange.installed_version() or "not here")
    with testbed.Testbed() as cluster:
        data = exchange.prepared(cluster.folder, "bytes")
        return [row for size in (("tiny",) if options.quick else ("tiny", "small")) for row in rows_of_model(cluster, data, size, options, note)]
