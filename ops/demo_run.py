#!/usr/bin/python3
"""The story that ops/demo shows once everything is built: a service, two workers, a run, a kill, a join, an end.

Everything said about the run is taken from the service (its events and `show`); nothing is assumed. Every process is in a
session of its own and is killed when this script ends, however it ends."""
import argparse
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

STEPS = 36  # 4 microbatches of 2 x 512 tokens each: two to three minutes on two slow cores
KILL_AT, JOIN_AT = 10, 16
LIMIT_S = 1200
PROMPT = {"english": "The function", "chinese": "这个命令"}
urllib.request.install_opener(urllib.request.build_opener(urllib.request.ProxyHandler({})))  # no proxy is between these programs


class Demo:
    def __init__(self, options):
        self.bin, self.data, self.state = (os.path.abspath(p) for p in (options.bin, options.data, options.state))
        self.language = os.path.basename(os.path.dirname(self.data))
        self.terminal = sys.stdout.isatty()
        self.line_open = False
        self.last_step = -1
        self.processes = {}
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.url = f"http://127.0.0.1:{probe.getsockname()[1]}"
        shutil.rmtree(self.state, ignore_errors=True)
        os.makedirs(self.state)
        self.environment = dict(os.environ, HOLDFAST_SERVER=self.url, HOLDFAST_DATA_DIR=f"{self.state}/service")
        self.environment.pop("HOLDFAST_TOKEN", None)
        self.deadline = time.monotonic() + LIMIT_S

    # --- what people see

    def say(self, text=""):
        if self.line_open:
            print()
            self.line_open = False
        print(text, flush=True)

    def progress(self, job):
        if job["loss"] is None:  # before the first step there is nothing to show
            return
        text = (f"step {job['step']:>2}/{job['total_steps']}  loss {job['loss']:6.3f}  "
                f"{job['tokens_per_second'] or 0:6.0f} tokens/s  ETA {job['eta_s'] or 0:4.0f} s  world size {job['world_size']}")
        if self.terminal:
            print(f"\r  {text}   ", end="", flush=True)
            self.line_open = True
        elif job["step"] != self.last_step:
            self.last_step = job["step"]
            print(f"  {text}", flush=True)

    # --- processes and the service

    def start(self, name, *arguments):
        with open(f"{self.state}/{name}.log", "wb") as log:
            self.processes[name] = subprocess.Popen([f"{self.bin}/{arguments[0]}", *arguments[1:]], env=self.environment,
                                                    stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)

    def start_worker(self, name):
        self.start(name, "holdfast-worker", "--name", name, "--device", "cpu", "--threads", "1", "--interface", "lo")

    def holdfast(self, *arguments, check=True):
        done = subprocess.run([f"{self.bin}/holdfast", *arguments], env=self.environment, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if check and done.returncode != 0:
            raise SystemExit(f"`holdfast {' '.join(arguments)}` failed:\n{done.stdout}")
        return done.stdout.strip()

    def get(self, path):
        with open(f"{self.state}/service/admin.token", encoding="utf-8") as file:
            token = file.read().strip()
        request = urllib.request.Request(self.url + path, headers={"Authorization": f"Bearer {token}"})
        with urllib.request.urlopen(request, timeout=10) as reply:
            return json.load(reply)

    def wait(self, condition, what):
        while True:
            for name in ("service", *[n for n in self.processes if n != "service"]):
                if self.processes[name].poll() is not None:
                    with open(f"{self.state}/{name}.log", encoding="utf-8", errors="replace") as log:
                        raise SystemExit(f"{name} ended while the demo waited for {what}; it said:\n{log.read()[-2000:]}")
            try:
                value = condition()
            except (urllib.error.URLError, OSError):
                value = None
            if value:
                return value
            if time.monotonic() > self.deadline:
                raise SystemExit(f"gave up waiting for {what} after {LIMIT_S} s; logs are in {self.state}")
            time.sleep(0.2)

    def follow(self, job, until, what):
        def look():
            shown = self.get(f"/v1/jobs/{job}")
            self.progress(shown)
            if shown["state"] in ("failed", "cancelled") or shown["state"] == "succeeded" and not until(shown):
                raise SystemExit(f"\nthe job is {shown['state']} ({shown['reason']}); the demo waited for {what}")
            return shown if until(shown) else None

        return self.wait(look, what)

    def events(self, job, after=0):
        return [e for e in self.get(f"/v1/jobs/{job}/events?limit=1000")["events"] if e["id"] > after]

    def tell_events(self, job, after):
        for event in self.events(job, after):
            self.say(f"    {event['time'][11:19]}  {event['kind']:<22} {event['message']}")

    # --- the story

    def submit(self):
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            dtype = "bfloat16" if "avx512_bf16" in file.read() else "float32"
        return json.loads(self.holdfast(
            "submit", "--json", "--name", "demo", "--model", "tiny", "--dtype", dtype, "--train_data_path", f"{self.data}/train.bin",
            "--valid_data_path", f"{self.data}/val.bin", "--nodes", "2", "--batch_size", "2", "--gradient_accumulation_steps", "2",
            "--total_steps", str(STEPS), "--learning_rate", "1e-3", "--min_lr", "1e-4", "--warmup_steps", "5", "--eval_every", "18",
            "--eval_microbatches", "2", "--checkpoint_every", "12", "--keep_last", "2"))["id"]

    def run(self):
        self.say(f"Starting the service and two workers, one thread each. Their logs: {self.state}/*.log")
        self.start("service", "holdfast", "serve", "--listen", self.url.removeprefix("http://"), "--data_dir",
                   f"{self.state}/service")
        self.wait(lambda: urllib.request.urlopen(self.url + "/readyz", timeout=5).status == 200, "the service")
        for name in ("worker-1", "worker-2"):
            self.start_worker(name)
        self.wait(lambda: len([n for n in self.get("/v1/nodes")["nodes"] if n["state"] == "alive"]) == 2, "two workers")
        job = self.submit()
        self.say(f"Submitted {job}: GPT-2 Tiny, 30,142,848 parameters, {STEPS} steps of 4 microbatches of 2 x 512 tokens.")
        before = self.follow(job, lambda shown: shown["step"] >= KILL_AT and shown["world_size"] == 2, f"step {KILL_AT}")
        self.kill(job, before)
        self.join(job)
        self.follow(job, lambda shown: shown["state"] == "succeeded", "the end")
        self.finish(job)

    def kill(self, job, before):
        victim = "worker-2"
        training = next(n["pid"] for n in self.get("/v1/nodes")["nodes"] if n["id"] == victim)
        last_event = max(e["id"] for e in self.events(job))
        supervisor = self.processes.pop(victim)
        self.say(f"\nNow {victim} dies: kill -9 of its supervisor ({supervisor.pid}) and of its training process ({training}).")
        os.killpg(supervisor.pid, signal.SIGKILL)
        try:
            os.kill(training, signal.SIGKILL)
        except ProcessLookupError:
            pass
        supervisor.wait()
        after = self.follow(job, lambda shown: shown["generation"] > before["generation"] and shown["step"] > before["step"]
                            and any(e["kind"] == "progress_resumed" for e in self.events(job, last_event)), "progress without it")
        self.say("What happened, in the service's words:")
        self.tell_events(job, last_event)
        self.told(job, before, after)

    def told(self, job, before, after):
        lost = sum(row["last_step"] - row["first_step"] + 1 for row in self.get(f"/v1/jobs/{job}/ledger")["rows"]
                   if row.get("voided_by") and row["rank"] == 0)
        self.say(f"  So: generation {before['generation']} -> {after['generation']}, world size {before['world_size']} -> "
                 f"{after['world_size']}, steps lost: {lost}. A step still has its 4 microbatches.\n")

    def join(self, job):
        before = self.follow(job, lambda shown: shown["step"] >= JOIN_AT, f"step {JOIN_AT}")
        last_event = max(e["id"] for e in self.events(job))
        self.say("\nNow a third worker comes: worker-3 copies the state from worker-1 and takes its share.")
        self.start_worker("worker-3")
        formed = self.follow(job, lambda shown: shown["world_size"] == 2, "the third worker to take part")
        after = self.follow(job, lambda shown: shown["step"] > formed["step"], "a step with it")
        self.say("What happened, in the service's words:")
        self.tell_events(job, last_event)
        self.told(job, before, after)

    def finish(self, job):
        shown = self.get(f"/v1/jobs/{job}")
        self.say(f"\nDone: step {shown['step']}, loss {shown['loss']:.3f}, validation loss {shown['validation_loss']:.3f}, "
                 f"{shown['restarts']} fault.\nState hash after step {shown['state_hash_step']}: {shown['state_hash']}")
        self.say("\nThe checkpoints, every byte read again:")
        self.say("  " + self.holdfast("ckpt", "verify", job).replace("\n", "\n  "))
        self.say("\nThe ledger: each microbatch of each step, once:")
        self.say("  " + self.holdfast("audit", job, "--data", f"{self.data}/train.bin").replace("\n", "\n  "))
        self.say(f"\nA sample ({STEPS} steps are a taste: it knows which words are common, not yet what to say):")
        text = self.holdfast("sample", "--from", f"job:{job}", "--tokenizer", self.data, "--prompt", PROMPT[self.language],
                             "--tokens", "40", "--top_k", "40", "--seed", "1")
        self.say("  " + " ".join(text.split()))
        self.say(f"""
What next:
  the same by hand        README.md, "By hand": serve, worker, submit, watch
  a run that learns       build/release/bin/holdfast submit --model tiny --train_data_path {self.data}/train.bin --watch
  your own text           build/release/bin/holdfast data prepare FOLDER --output data
  {"Chinese text            ops/demo --chinese" if self.language == "english" else "English text            ops/demo"}
  what the demo left      {self.state} (service and worker logs, checkpoints)""")

    def close(self, patience_s):
        """Asks all to end, then makes them."""
        for process in self.processes.values():
            if process.poll() is None:
                process.terminate()
        end = time.monotonic() + patience_s
        for process in self.processes.values():
            try:
                process.wait(max(0.1, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                pass
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()


def main():
    parser = argparse.ArgumentParser(description="The part of ops/demo that runs after the build; start ops/demo instead.")
    for name in ("bin", "data", "state"):
        parser.add_argument(f"--{name}", required=True)
    demo = Demo(parser.parse_args())
    patience_s = 10

    def interrupted(number, _):
        nonlocal patience_s
        patience_s = 1  # whoever interrupts does not want to wait for a step to end
        demo.say(f"\nInterrupted by signal {number}: ending every process of the demo ...")
        raise SystemExit(130)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupted)
    try:
        demo.run()
    finally:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        demo.close(patience_s)


if __name__ == "__main__":
    main()
