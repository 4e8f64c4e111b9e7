#!/usr/bin/python3
"""The commands of README.md and ops/MANUAL.md, run: the newcomer's path as it stands there, and every other command of their code blocks.

Each line is run as it is written, in bash, in network and process namespaces of its own (so port 7070 is free and the home folder is
empty), in an order in which it makes sense; placeholders (…, JOB names of other runs, addresses of other nodes) are replaced as
the steps below say. A command of either document that is neither run below nor in ELSEWHERE fails the test, and so does a command
here that both documents have lost."""
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import harness  # noqa: E402  (needs the path above)
from network import namespaces  # noqa: E402
from processes import Process, wait_until  # noqa: E402
from standbys.postgresql_server import PostgresqlServer  # noqa: E402

import clusters  # noqa: E402
from commands import DOCUMENTS, ELSEWHERE, commands_of, documented_commands  # noqa: E402

PAGE = os.path.join(harness.ROOT, "tests", "page")
TWO_MINUTES = 120
SMALL = ("--train_data_path $PWD/data/train.bin --n_layer 1 --n_embd 32 --n_head 2 --vocab_size 8192 --block_size 32 --batch_size 2 "
         "--checkpoint_every 20")


class Documents(unittest.TestCase):
    def setUp(self):
        self.cluster = harness.Cluster()  # for its folder and for the end of every process
        self.addCleanup(lambda: self.cluster.close(not self._outcome.success))
        self.folder = self.cluster.folder
        self.cluster.data_dir = os.path.join(self.folder, ".local", "share", "holdfast")
        self.cluster.url = "http://127.0.0.1:7070"
        os.makedirs(f"{self.folder}/build")
        os.symlink(os.path.dirname(harness.BIN), f"{self.folder}/build/release")
        os.symlink(f"{harness.ROOT}/ops", f"{self.folder}/ops")
        os.makedirs(f"{self.folder}/books")
        for number, source in enumerate(glob.glob(f"{harness.ROOT}/*/**/*.cpp", recursive=True)):  # text enough for 8,192 words
            shutil.copy(source, f"{self.folder}/books/{number}.txt")
        self.left = documented_commands()

    def taken(self, command):
        """Crosses the command off the documents' list."""
        self.assertIn(command, self.left, f"neither of {DOCUMENTS} has this command (any more)")
        self.left = [other for other in self.left if other != command]
        return command

    def script(self, command, *changes):
        for old, new in changes:
            self.assertIn(old, command)
            command = command.replace(old, new)
        return ["bash", "-c", f"export PATH=$PWD/build/release/bin:$PATH\n{command}"]

    def environment(self):
        kept = self.cluster.environment()
        del kept["HOLDFAST_DATA_DIR"]  # the newcomer has set nothing
        return kept

    def run_line(self, command, *changes, status=0, says="", timeout_s=120, before=""):
        """One command of the documents, which must end with this exit status and say this (a pattern). `before`: what a reader's
        shell has done by then."""
        arguments = self.script(self.taken(command), *changes)
        arguments[-1] = f"{before}\n{arguments[-1]}"
        done = subprocess.run(arguments, env=self.environment(), cwd=self.folder, capture_output=True,
                              text=True, stdin=subprocess.DEVNULL, check=False, timeout=timeout_s)
        said = done.stdout + done.stderr
        self.assertEqual(status, done.returncode, f"{command}\n{said[-2000:]}")
        self.assertRegex(said, re.compile(says, re.MULTILINE), command)
        return done.stdout

    def start(self, name, command, *changes):
        """A command that goes on by itself."""
        replaced_by = "exec env" if re.match(r"[A-Z_]+=", command) else "exec"
        arguments = ["env", "-C", self.folder, *self.script(f"{replaced_by} {self.taken(command)}", *changes)]
        process = Process(name, arguments, self.environment(), os.path.join(self.folder, f"{name}.log"))
        self.cluster.everything.append(process)
        return process

    def follow(self, name, command, *changes, until):
        """A command that is watched until it says this, and then left with Ctrl-C."""
        process = self.start(name, command, *changes)
        wait_until(lambda: re.search(until, process.log()) or self.ended_early(process), 60, f"`{command}` to say {until}")
        process.signal(signal.SIGINT)
        process.wait_exit()

    def ended_early(self, process):
        if not process.running():
            raise AssertionError(f"{process.name} ended with {process.popen.returncode}: {process.log()[-1500:]}")

    def submit(self, total_steps=40, flags=""):
        done = subprocess.run(self.script(f"holdfast submit {SMALL} --total_steps {total_steps} {flags}"), env=self.environment(), cwd=self.folder, check=True,
                              capture_output=True, text=True)
        return done.stdout.strip()

    # --- the order in which a reader meets them

    def test_every_command_works(self):
        for command in ELSEWHERE:
            self.taken(command)
        self.by_hand()
        self.data_sets()
        self.at_the_prompt()
        self.over_http()
        self.changing_a_run()
        self.several_jobs()
        self.tokens()
        self.the_network()
        self.curves()
        self.several_devices()
        self.several_machines()
        clusters.run(self)
        self.drills()
        self.operating()
        self.gpus()
        self.assertEqual([], self.left, "commands of the documents that nobody ran")

    def by_hand(self):
        self.taken("export PATH=$PWD/build/release/bin:$PATH")
        self.run_line("holdfast data prepare ~/books --output data", says="train.bin", timeout_s=300)
        self.run_line("holdfast data info data/train.bin", says="tokens")
        began = time.monotonic()
        service = self.start("service", "holdfast serve")
        wait_until(lambda: self.cluster.try_get("/readyz") is not None or self.ended_early(service), 20, "the service to be ready")
        self.start("a", "holdfast-worker --name a --threads 1")
        self.start("b", "holdfast-worker --name b --threads 1")
        watching = self.start("watching", "holdfast submit --model tiny --train_data_path $PWD/data/train.bin --valid_data_path "
                              "$PWD/data/val.bin --vocab_size 8192 --nodes 2 --batch_size 4 --total_steps 1000 --eval_every 100 --watch")
        self.watch_in_the_browser()
        took = time.monotonic() - began
        print(f"from `holdfast serve` to watching the job in the browser: {took:.0f} s")
        self.assertLess(took, TWO_MINUTES * harness.PATIENCE)
        wait_until(lambda: re.search(r"step \d+/1000 .*2 workers", watching.log()) or self.ended_early(watching), 60, "progress to be printed")

    def watch_in_the_browser(self):
        """newcomer.test.mjs signs in with admin.token and sees the job's curve grow."""
        environment = dict(os.environ, HOLDFAST_PAGE_URL=self.cluster.url, HOLDFAST_PAGE_TOKEN=self.cluster.token(),
                           HOLDFAST_PAGE_WORKER_TOKEN=self.cluster.token("worker"), HOLDFAST_PAGE_CHROMIUM="/usr/bin/chromium",
                           HOLDFAST_PAGE_CONTROL="http://127.0.0.1:9", HOME=self.folder,
                           HOLDFAST_PAGE_ARTIFACTS=os.path.join(os.path.dirname(harness.BIN), "page-screenshots"))
        done = subprocess.run(["node", "--test-reporter=spec", f"{PAGE}/newcomer.test.mjs"], env=environment, cwd=PAGE, capture_output=True,
                              text=True, check=False, timeout=200)
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)

    def data_sets(self):
        self.run_line("holdfast data push data --name books", says="^Pushed books: .*tokens")
        self.run_line("holdfast submit --train_data_path data:books --valid_data_path data:books --vocab_size 8192 --nodes 2", ("submit", "submit --dry_run"))
        for verb, says in (("ls", "^books .*train.bin"), ("rm books", "is removed")):
            self.run_line(f"holdfast data {verb}", says=says)

    def over_http(self):
        token = self.taken("export HOLDFAST_TOKEN=$(cat ~/.local/share/holdfast/admin.token)")
        bearer = '-H "Authorization: Bearer $HOLDFAST_TOKEN"'
        json_body = '-H "Content-Type: application/json"'
        service = "http://127.0.0.1:7070/v1"
        created = json.loads(self.run_line(
            f"curl -sS -X POST {service}/jobs {bearer} {json_body} -d '{{\"model\": \"tiny\", \"train_data_path\": "
            "\"'$PWD'/data/train.bin\", \"vocab_size\": 8192, \"nodes\": 2, \"batch_size\": 4, \"total_steps\": 1000}'", before=token))
        self.assertIn(created["state"], ("queued", "running", "waiting"), created)
        self.cluster.post(created["id"], "stop")
        shown = json.loads(self.run_line(f"curl -sS {service}/jobs/j1 {bearer}", before=token))
        self.assertEqual("j1", shown["id"])
        found = json.loads(self.run_line(f'curl -sS "{service}/jobs?state=running&limit=10" {bearer}', before=token))
        self.assertEqual(["j1"], [job["id"] for job in found["jobs"]])
        curve = json.loads(self.run_line(f'curl -sS "{service}/jobs/j1/metrics?points=1000" {bearer}', before=token))
        self.assertGreater(len(curve["metrics"]), 0)
        self.run_line(f"curl -sS -X POST {service}/jobs/j1/scale {bearer} {json_body} -d '{{\"nodes\": 2}}'", before=token, says='"j1"')
        self.run_line(f'curl -sSN "{service}/jobs/j1/events?follow=1" {bearer}', ("curl -sSN", "timeout 3 curl -sSN"), before=token,
                      status=124, says="^data: .*job_submitted")

    def changing_a_run(self):
        self.run_line("holdfast scale j1 2", says="j1: scaled")
        divided = self.submit(flags="--shard optimizer --nodes 3 --min_nodes 3 --gradient_accumulation_steps 1")  # waits for a third worker
        self.run_line("holdfast scale j1 --replicas 3", ("j1", divided), says=f"{divided}: scaled")
        self.cluster.post(divided, "stop")
        self.run_line("holdfast drain b", says="b")
        wait_until(lambda: next(n["state"] for n in self.cluster.nodes() if n["id"] == "b") in ("left", "lost"), 60, "b to have left")
        self.run_line("holdfast pause j1 ; holdfast resume j1")
        wait_until(lambda: self.cluster.job("j1")["latest_checkpoint"], 60, "the pause's checkpoint")
        step = self.cluster.job("j1")["latest_checkpoint"]["step"]
        text = self.run_line("holdfast sample job:j1 --tokenizer data --prompt \"The \"", timeout_s=300)
        self.assertIn("The", text)
        self.run_line("holdfast eval job:j1 --data data/val.bin", ("val.bin", "val.bin --windows 4"), says="^Loss .*perplexity .* 4 windows")
        self.run_line("holdfast submit … --resume_from job:j1@300", ("…", "--model tiny --vocab_size 8192 --train_data_path $PWD/data/train.bin --total_steps 1000"),
                      ("@300", f"@{step}"), says=r"^j\d+$")
        self.run_line("holdfast stop j1", says="j1")
        self.cluster.wait_state("j1", "cancelled")
        for job in self.cluster.get("/v1/jobs")["jobs"]:
            if job["state"] not in ("succeeded", "failed", "cancelled"):
                self.cluster.post(job["id"], "stop")
        text = self.run_line("holdfast submit --train_data_path data/train.bin --valid_data_path data/val.bin --n_layer 4 --n_embd 128 --n_head 4 "
                             "--vocab_size 8192 --block_size 128 --batch_size 8 --nodes 2 --gradient_accumulation_steps 2 --total_steps 150 "
                             "--learning_rate 3e-3 --eval_every 50 --checkpoint_every 50 --watch", ("--total_steps 150", "--total_steps 4"),
                             says="succeeded after step 4/4")
        job = re.match(r"j\d+", text)[0]
        self.run_line("holdfast audit j1 --data data/train.bin", ("j1", job), says="ok. Steps 1 to 4")
        self.mixtures()
        self.run_line("holdfast events j1", ("j1", job), says="job_succeeded")
        self.run_line("holdfast ckpt verify j1", ("j1", job), says="4")
        self.other_programs(job)

    def mixtures(self):
        other = ("code/train.bin", "data/val.bin")
        flags = SMALL.replace("--train_data_path $PWD/data/train.bin", "--total_steps 3 --warmup_steps 1 --watch")
        text = self.run_line("holdfast submit … --train_data_path data/train.bin:0.7,code/train.bin:0.3", ("…", flags), other, says="after step 3/3")
        self.run_line("holdfast audit j1 --data data/train.bin --data code/train.bin", ("j1", text.split()[0]), other, says="ok. Steps 1 to 3")

    def other_programs(self, job):
        store = os.path.join(self.cluster.data_dir, "checkpoints", job)
        self.run_line("holdfast ckpt export job:j1 --format safetensors --output j1-hf", ("job:j1", f"job:{job}"), says="model.safetensors")
        self.run_line("holdfast ckpt export job:j1@300 --format gguf --dtype float16 --output j1-gguf", ("job:j1@300", f"job:{job}@4"), says="model.gguf")
        self.run_line("holdfast ckpt export /shared/ckpt/j1 --format npz --output j1-npz", ("/shared/ckpt/j1", store), says="model.npz")
        self.run_line('curl -sSfOJ "http://127.0.0.1:7070/v1/jobs/j1/checkpoints/300/export?format=safetensors" '
                      '-H "Authorization: Bearer $HOLDFAST_TOKEN"', ("jobs/j1/checkpoints/300", f"jobs/{job}/checkpoints/4"),
                      before="export HOLDFAST_TOKEN=$(cat ~/.local/share/holdfast/admin.token)")
        self.assertTrue(tarfile.is_tarfile(os.path.join(self.folder, f"{job}-step-4-safetensors.tar")))
        flags = "--train_data_path $PWD/data/train.bin --batch_size 8 --total_steps 2 --warmup_steps 1"  # sizes are the model's
        for command, change in (("holdfast submit … --init_from /models/gpt2", ("/models/gpt2", "$PWD/j1-hf")),
                                ("holdfast submit … --init_from /shared/ckpt/j1@300", ("/shared/ckpt/j1@300", f"{store}@4")),
                                ("holdfast submit … --init_from job:j1@300", ("job:j1@300", f"job:{job}@4"))):
            tuned = self.run_line(command, ("…", flags), change, says=r"^j\d+$")
            self.cluster.wait_state(re.search(r"j\d+", tuned)[0], "succeeded")

    def at_the_prompt(self):
        self.follow("ls", "holdfast ls --state running --watch", until="j1")
        self.follow("logs", "holdfast logs j1 -f --tail 20 --level warning", ("warning", "info"), until=r"\S")
        subprocess.run(self.script("holdfast show j1 --spec > job.json"), env=self.environment(), cwd=self.folder, check=True)
        self.run_line("holdfast submit --config job.json --learning_rate 3e-4 --dry_run", says="3e-04|0.0003|wait|begin")
        self.run_line("holdfast show j1 --spec | holdfast submit --config - --seed 2", says=r"^j2$")
        self.run_line("holdfast jobs diff j1 j2", says="seed")
        self.cluster.post("j2", "stop")
        self.run_line("holdfast wait j1 j2 --timeout 3600 && echo both are done", ("j1 j2", "j1 --for step=1"), says="both are done")
        self.run_line("holdfast help job_spec", says="batch_size")
        self.run_line("holdfast help torchrun", says="--max_iters  --total_steps")
        # `source` has status 0 also where the program fails.
        self.run_line("source <(holdfast completion bash)", ("bash)", "bash) && complete -p holdfast"), says="-F _holdfast holdfast")

    def several_jobs(self):
        for command, *changes in (
                ("holdfast submit … --priority 5",),
                ("holdfast submit … --requires device=hip --requires memory_gib=24 --requires zone=a",),
                ("holdfast submit … --after j1 --resume_from job:j1", ("j1", "first")),
                ("holdfast submit … --nodes 4 --ring_tls on", ("--nodes 4", "--global_batch_size 8 --nodes 4")),
                ("holdfast submit … --max_runtime 86400 --retries 3",)):
            name = "--name first " if "priority" in command else ""
            self.run_line(command, ("…", f"{name}{SMALL} --total_steps 40"), *changes, says=r"^j\d+$")
        waits = next(j for j in self.cluster.get("/v1/jobs")["jobs"] if j["state"] == "queued" and "device=hip" in j["reason"])
        self.assertIn("device=hip (1 has cpu)", waits["reason"])
        self.cluster.post(waits["id"], "stop")

    def tokens(self):
        self.run_line("holdfast tokens create ci --role submit --expires_in 30d", says=r"^\S{20,}\n")
        self.run_line("holdfast tokens ls ; holdfast tokens revoke ci", says="(?s)ci.*revoked")

    def the_network(self):
        listening = self.start("netcheck", "holdfast netcheck --listen 0.0.0.0:7071")
        wait_until(lambda: "7071" in listening.log() or self.ended_early(listening), 20, "netcheck to listen")
        self.run_line("holdfast netcheck NODE:7071", ("NODE", "127.0.0.1"), says="round trip")
        listening.signal(signal.SIGINT)
        self.run_line("holdfast plan --nodes 2 --batch_size 16 --gradient_accumulation_steps 8 --link_mb_s 118 --device_tokens_per_s 200000",
                      says="sync_every")
        self.run_line("holdfast plan --nodes 8 --workers_per_node 4 --batch_size 16 --link_gbit_s 10 --microbatch_s 0.03",
                      says="2 nodes of 4 workers")
        self.run_line("holdfast plan --model medium --nodes 2 --dtype bfloat16 --memory", says="AdamW's two moments")
        self.planned_jobs()

    def planned_jobs(self):
        """On two workers, of which worker a is one; the job before has told nothing of this model on two."""
        other = Process("other", ["env", "-C", self.folder, *self.script("exec holdfast-worker --name other --threads 1")], self.environment(),
                        os.path.join(self.folder, "other.log"))
        self.cluster.everything.append(other)
        wait_until(lambda: sum(node["state"] == "alive" and not node["job"] for node in self.cluster.nodes()) >= 2 or self.ended_early(other), 60,
                   "two free workers")
        job = f"{SMALL} --total_steps 40"
        self.run_line("holdfast submit … --nodes 2 --auto", ("…", job), says=r"(?s)^j\d+\n.*^trial j\d+: .*^2 nodes .*the same training.*^taken ")
        self.run_line("holdfast submit … --nodes 2 --auto --dry_run --microbatch_s 0.03 --link_mb_s 118", ("…", job),
                      says="(?s)2 nodes .* of what one does alone.*nothing was submitted")
        other.signal(signal.SIGTERM)
        other.wait_exit()

    def several_devices(self):
        box = self.start("box1", "holdfast-worker --server http://FIRST:7070 --name box1 --devices all", ("FIRST", "127.0.0.1"), ("all", "all --threads 1"))
        wait_until(lambda: any(n["id"] == "box1-0" and n["state"] == "alive" for n in self.cluster.nodes()) or self.ended_early(box), 30,
                   "its first worker")
        box.signal(signal.SIGTERM)
        self.assertEqual(0, box.wait_exit(timeout_s=60))

    def curves(self):
        self.profile()
        worker = self.start("with-curves", "holdfast-worker --tensorboard_dir /shared/curves", ("/shared/curves", "$PWD/curves --name c --threads 1 --labels curves=yes"))
        job = self.submit(flags="--requires curves=yes")
        self.cluster.wait_state(job, "succeeded")
        wait_until(lambda: os.path.isdir(f"{self.folder}/curves") and os.listdir(f"{self.folder}/curves") or self.ended_early(worker), 30,
                   "event files")

    def profile(self):
        job = self.submit(100000)
        self.cluster.wait_step(job, 1)
        self.run_line("holdfast profile j1 --steps 20", ("j1", job), says="^head, loss and backward +train")
        with open(f"{self.folder}/{job}-profile.json", encoding="utf-8") as file:
            self.assertIn("traceEvents", json.load(file))
        self.cluster.post(job, "stop")

    def several_machines(self):
        """Both ends on this machine, with a certificate made for it; and a service with bounds for logs. Each has a folder of its own."""
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
                        "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", "key.pem", "-out", "cert.pem"],
                       cwd=self.folder, check=True, capture_output=True)
        shutil.copy(f"{self.folder}/cert.pem", f"{self.folder}/ca.pem")
        second = self.start("encrypted", "holdfast serve --listen 0.0.0.0:7070 --tls_cert cert.pem --tls_key key.pem",
                            ("7070", "7443 --data_dir $PWD/second"))
        wait_until(lambda: os.path.exists(f"{self.folder}/second/worker.token") or self.ended_early(second), 20, "the tokens")
        shutil.copy(f"{self.folder}/second/worker.token", f"{self.folder}/worker.token")
        worker = self.start("far", "HOLDFAST_TOKEN=$(cat worker.token) holdfast-worker --server https://FIRST:7070 --cacert ca.pem --interface eth0",
                            ("FIRST:7070", "localhost:7443"), ("eth0", "lo --name far --threads 1"))
        listing = self.script("HOLDFAST_TOKEN=$(cat second/admin.token) holdfast nodes --server https://localhost:7443 --cacert ca.pem")

        def there():
            listed = subprocess.run(listing, env=self.environment(), cwd=self.folder, capture_output=True, text=True, check=False)
            return re.search(r"^far\b.*alive", listed.stdout, re.MULTILINE) or self.ended_early(worker)
        wait_until(there, 30, "the worker to be listed over https")
        for process in (worker, second):
            process.signal(signal.SIGTERM)
            process.wait_exit()
        bounded = self.start("bounded", "holdfast serve --log_lines_per_job 100000 --log_mib_per_job 64 --logs_mib 4096 --keep_logs_days 30",
                             ("serve", "serve --listen 127.0.0.1:7444 --data_dir $PWD/third"))
        wait_until(lambda: "serves at" in bounded.log() or self.ended_early(bounded), 20, "the service to be ready")
        bounded.signal(signal.SIGTERM)
        bounded.wait_exit()

    def drills(self):
        os.makedirs(f"{self.folder}/drills")
        self.start("drilled", "holdfast-worker --name a --drills /var/lib/drills", ("--name a", "--name d --threads 1"),
                   ("/var/lib/drills", "$PWD/drills"))
        with open(f"{self.folder}/monday.txt", "w", encoding="utf-8") as script:
            script.write("1s kill d\n3s slow d for 1s\n")
        reference = self.submit(1500, "--seed 3")
        self.cluster.wait_state(reference, "succeeded")
        job = self.submit(100000)
        self.cluster.wait_step(job, 1)
        self.run_line("holdfast chaos j1 --faults kill,freeze,service-kill --every 15s --for 10m", ("j1", f"{job} --yes"),
                      (",service-kill", ""), ("15s", "2s"), ("10m", "5s"), says="throughput")
        self.cluster.post(job, "stop")
        again = self.submit(1500, "--seed 3")
        self.run_line("holdfast chaos j1 --script monday.txt --drills /var/lib/drills --reference j0", ("j1", f"{again} --yes"),
                      ("/var/lib/drills", "$PWD/drills"), ("j0", reference), says="throughput")

    def operating(self):
        self.run_line("holdfast doctor --server http://node1:7070", ("node1", "127.0.0.1"), says="(?s)ok.*service")
        self.run_line("holdfast backup --output copy.sqlite", says="copy.sqlite")
        service = next(p for p in self.cluster.everything if p.name == "service")
        service.signal(signal.SIGTERM)
        service.wait_exit()
        self.run_line("holdfast restore copy.sqlite", says="copy.sqlite")
        self.several_services()

    def several_services(self):
        """With the service stopped: its database goes to PostgreSQL, and a service leads there."""
        database = PostgresqlServer().make().start()
        self.addCleanup(database.close)
        place = ("postgresql://holdfast@db1/holdfast", f"'{database.fresh_address()}'")
        folder = self.cluster.data_dir
        self.run_line("holdfast store copy --from /var/lib/holdfast --to postgresql://holdfast@db1/holdfast", ("/var/lib/holdfast", folder), place,
                      says="they are the same")
        self.start("on_postgresql", "holdfast serve --store postgresql://holdfast@db1/holdfast --shared_dir /shared/holdfast", place,
                   ("/shared/holdfast", folder))
        self.run_line("holdfast ls --server http://node1:7070,http://node2:7070", ("node1:7070", "127.0.0.1:7071"), ("node2", "127.0.0.1"), says="j1")

    def gpus(self):
        if not os.path.exists("/dev/kfd") and not os.path.exists("/dev/nvidiactl"):
            self.run_line("ops/check_gpu", status=77, says="shows no GPU")
        else:
            self.taken("ops/check_gpu")


class TheReading(unittest.TestCase):
    def test_commands_are_found_in_blocks_and_transcripts(self):
        self.assertEqual(["holdfast ls --json", "ops/build"], commands_of("holdfast ls \\\n    --json   # lists\nops/build\n"))
        self.assertEqual(["holdfast ls"], commands_of("$ holdfast ls\nJOB  STATE\nholdfast is prose\n"))
        self.assertEqual(["HOLDFAST_TOKEN=x holdfast-worker"], commands_of("HOLDFAST_TOKEN=x holdfast-worker\n"))
        self.assertEqual([], commands_of("   you ── holdfast submit\n"))


if __name__ == "__main__":
    if (reason := namespaces.reason_not_to_run()) is not None:
        print(f"skipped: {reason}")
        sys.exit(77)
    namespaces.enter()
    unittest.main(verbosity=2)
