"""Texts that are asked for at random moments: how long until the first token, beside llama.cpp, with and without a common beginning."""
import json
import os
import random
import time

import testbed
from cases import exchange, serving

TITLE = "Texts asked for at random moments: milliseconds until the first token"
PROMPT, COMMON, TOKENS, SEQUENCES, THREADS = 160, 128, 32, 32, 2
REQUESTS, QUICK_REQUESTS = 120, 20
# What llama.cpp keeps up with on two slow cores, and several times as much.
PER_S, QUICK_PER_S = {"tiny": (1.5, 8.0), "small": (0.3, 1.5)}, (8.0,)
LONGEST_S = 90
ENOUGH = 100  # requests for one of a hundred
REPEAT = 1  # unless told otherwise; the requests of all rounds make a row
NOTE = ("Up to {requests} requests that come by chance (Poisson), for {longest} s at most; prompts of {prompt} tokens, {tokens} are written, two threads, bfloat16 "
        "(llama.cpp: float16, at its best in the quicker of that and bfloat16), the same moments and prompts for both. Common: all prompts begin with the same {common} tokens. llama.cpp (node-llama-cpp {version}) "
        "has {sequences} sequences; each keeps the beginning that its next prompt has in common with its last; where it cannot keep up its queue grows to the end; at its best it has one or two threads, with or "
        "without flash attention, whichever way was quickest with a few requests of the row's kind. Of fewer than {enough} requests the longest time stands in place of p99. "
        "Memory of a text: what is resident after {sequences} at once less after one, by text.")


def requests(count, rate, common):
    values = random.Random(7)
    at_s, made = 0.0, []
    for number in range(count):
        at_s += values.expovariate(rate)
        shared = [(11 * i) % 200 + 3 for i in range(common)]
        made.append({"at_s": at_s, "prompt": shared + [(7 * i + 13 * number) % 200 + 3 for i in range(PROMPT - common)]})
    return made


def first_tokens_ms(served, asked):
    """By request."""
    found, begun = [None] * len(asked), time.monotonic()

    def ask(number):
        time.sleep(max(0.0, asked[number]["at_s"] - (time.monotonic() - begun)))
        came = time.monotonic()

        def at_token(_more):
            found[number] = found[number] or (time.monotonic() - came) * 1000

        served.stream_of(asked[number]["prompt"], TOKENS, at_token)

    testbed.beside_each_other(*((ask, number) for number in range(len(asked))))
    if None in found:
        raise SystemExit(f"bench/run serving_latency: {found.count(None)} of {len(found)} requests were answered without a token")
    return found


def llama(cluster, model, asked, sequences, threads, flash):
    script, path = os.path.join(testbed.ROOT, "bench", "peers", "llama", "latency.mjs"), os.path.join(cluster.folder, "requests.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(asked, file)
    return json.loads(testbed.output_of(["node", script, exchange.MODULES, model, path, sequences, TOKENS, threads, flash]))


def quickest(cluster, models, asked):
    """(model, threads, flash attention) with which llama.cpp is waited for least."""
    return min(((model, threads, flash) for model in models for threads in range(1, THREADS + 1) for flash in (0, 1)),
               key=lambda way: percentile(llama(cluster, way[0], asked[:QUICK_REQUESTS], SEQUENCES, *way[1:])["first_token_ms"], 0.5))


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def rows_of_model(cluster, data, size, options):
    rates, most = (QUICK_PER_S, QUICK_REQUESTS) if options.quick else (PER_S[size], REQUESTS)
    version = exchange.installed_version()
    note = NOTE.format(requests=most, longest=LONGEST_S, prompt=PROMPT, tokens=TOKENS, common=COMMON, version=version or "not here", sequences=SEQUENCES, enough=ENOUGH)
    job = serving.checkpoint(cluster, data, size)
    models = [os.path.join(exchange.export(cluster, job, "gguf", form), "model.gguf") for form in ("float16", "bfloat16")] if version else []
    for rate, (name, common) in ((rate, prompts) for rate in rates for prompts in (("all different", 0), ("a common beginning", COMMON))):
        asked = requests(min(most, int(LONGEST_S * rate)), rate, common)
        ways = dict(zip(testbed.peer_python.SETUPS, ((models[0], THREADS, 0), quickest(cluster, models, asked)))) if version else {}
        ours, theirs = [], {setup: [] for setup in ways}
        for turn in range(options.repeat):
            served = serving.Served(cluster, job, data, "bfloat16", THREADS, f"{size}-{rate:g}-{common}-{turn}")
            try:
                ours += first_tokens_ms(served, asked)
            finally:
                served.close()
            for setup, (model, *way) in ways.items():
                theirs[setup] += llama(cluster, model, asked, SEQUENCES, *way)["first_token_ms"]
        for which, share in (("p50", 0.5), ("p99" if len(ours) >= ENOUGH else "the longest", 0.99)):
            peer = {setup: percentile(values, share) for setup, values in theirs.items()}
            yield testbed.row(f"{size}, {rate:g} a second, {name}: {which}", "ms", percentile(ours, share), peer=peer, note=note)
    yield testbed.row(f"{size}: memory of a text", "MB", memory_of_a_text(lambda texts: served_memory_mb(cluster, job, data, texts)),
                      peer={setup: memory_of_a_text(lambda texts, flash=flash: llama(cluster, models[0], at_once(texts), texts, THREADS, flash)["memory_mb"])
                            for flash, setup in enumerate(testbed.peer_python.SETUPS)} if version else {}, note=note)


def at_once(texts):
    return [{**request, "at_s": 0.0} for request in requests(texts, 1.0, 0)]


def memory_of_a_text(memory_mb):
    return (memory_mb(SEQUENCES) - memory_mb(1)) / (SEQUENCES - 1)


def served_memory_mb(cluster, job, data, texts):
    served = serving.Served(cluster, job, data, "bfloat16", THREADS, f"memory-{job}-{texts}")
    try:
        first_tokens_ms(served, at_once(texts))
        return served.memory_mb("VmRSS")
    finally:
        served.close()


def measure(options):
    with testbed.Testbed() as cluster:
        data = exchange.prepared(cluster.folder, "bytes")
        return [row for size in (("tiny",) if options.quick else ("tiny", "small")) for row in rows_of_model(cluster, data, size, options)]
