#!/usr/bin/python3
"""What an operator does to running jobs: pause, resume, scale, drain, queue several, look at them."""
import harness
import ledger
from processes import free_port

SLOW_MS = 80  # a step: the run lasts five seconds, so that what is asked of it comes in its middle


class Control(harness.ClusterTest):
    reference = None

    def setUp(self):
        super().setUp()
        self.spec = harness.small_spec(self.cluster.folder)
        if Control.reference is None:
            self.cluster.start_workers("alone")
            Control.reference = self.cluster.wait_state(self.cluster.submit(**self.spec), "succeeded")["state_hash"]
            self.cluster.stop_workers()

    def succeed_with_the_same_bits(self, job):
        shown = self.cluster.wait_state(job, "succeeded")
        self.assertEqual(self.reference, shown["state_hash"])
        return shown

    def test_a_paused_job_frees_its_workers_and_goes_on_when_resumed(self):
        self.cluster.start_workers("w1", "w2", slow_ms=SLOW_MS)
        job = self.cluster.submit(**self.spec, nodes=2)
        self.cluster.wait_step(job, 10)
        self.cluster.cli("pause", job)
        paused = self.cluster.wait_state(job, "paused")
        self.assertEqual(paused["step"], paused["latest_checkpoint"]["step"], "a pause ends with a checkpoint of its step")
        harness.wait_until(lambda: all(n["phase"] == "idle" for n in self.cluster.nodes()), 10, "both workers to be free")
        self.assertEqual(paused["step"], self.cluster.job(job)["step"])
        self.cluster.cli("resume", job)
        shown = self.succeed_with_the_same_bits(job)
        self.assertEqual(0, shown["restarts"])
        ledger.assert_every_microbatch_once(self, self.cluster, job, 60, self.spec["train_data_path"])

    def test_a_paused_job_survives_the_service(self):
        self.cluster.start_workers("w1", slow_ms=SLOW_MS)
        job = self.cluster.submit(**self.spec)
        self.cluster.wait_step(job, 5)
        self.cluster.post(job, "pause")
        self.cluster.wait_state(job, "paused")
        self.cluster.kill_everything()
        self.cluster.start_service()
        self.cluster.start_workers("w1")
        self.assertEqual("paused", self.cluster.job(job)["state"])
        self.cluster.post(job, "resume")
        self.succeed_with_the_same_bits(job)

    def test_a_job_is_scaled_down_and_up_while_it_runs(self):
        self.cluster.start_workers("w1", "w2", slow_ms=SLOW_MS)
        job = self.cluster.submit(**self.spec, nodes=2)
        self.cluster.wait_step(job, 10)
        self.cluster.crawl()
        self.cluster.cli("scale", job, "--max_nodes", 1)
        harness.wait_until(lambda: self.cluster.job(job)["world_size"] == 1, 20, "one worker to be let go")
        self.cluster.cli("scale", job, "--max_nodes", 2)
        harness.wait_until(lambda: self.cluster.job(job)["world_size"] == 2, 20, "it to be taken back")
        self.cluster.hurry()
        shown = self.succeed_with_the_same_bits(job)
        self.assertEqual(0, shown["restarts"])
        self.assertEqual([], ledger.voided_rows(self.cluster, job))

    def test_a_drained_worker_leaves_and_its_process_ends(self):
        self.cluster.start_workers("w1", "w2", slow_ms=SLOW_MS)
        job = self.cluster.submit(**self.spec, nodes=2)
        self.cluster.wait_step(job, 10)
        self.cluster.cli("drain", "w2")
        self.assertEqual(0, self.cluster.workers.pop("w2").wait_exit())
        self.assertEqual(0, self.succeed_with_the_same_bits(job)["restarts"])

    def test_two_jobs_at_once_share_the_workers(self):
        self.cluster.start_workers("w1", "w2", slow_ms=SLOW_MS)
        low = self.cluster.submit(**self.spec, name="low")
        self.cluster.crawl()
        harness.wait_until(lambda: self.cluster.job(low)["world_size"] == 2, 20, "the idle worker to join the first job")
        high = self.cluster.submit(**self.spec, name="high", priority=5)
        self.cluster.wait_state(high, "running")
        self.assertEqual(1, harness.wait_until(lambda: self.cluster.job(low)["world_size"], 10, "the first job to go on"))
        self.cluster.hurry()
        for job in (high, low):
            self.assertEqual(0, self.succeed_with_the_same_bits(job)["restarts"])

    def test_the_queue_goes_by_priority_then_age(self):
        self.cluster.start_workers("w1", slow_ms=5)
        self.cluster.crawl()
        short = {**self.spec, "total_steps": 5, "warmup_steps": 1}
        first = self.cluster.submit(**self.spec)
        self.cluster.wait_state(first, "running")
        old = self.cluster.submit(**short)
        young = self.cluster.submit(**short)
        urgent = self.cluster.submit(**short, priority=1)
        self.cluster.hurry()
        started = {job: self.cluster.wait_state(job, "succeeded")["started_at"] for job in (first, urgent, old, young)}
        self.assertEqual([first, urgent, old, young], sorted(started, key=started.get), started)

    def test_a_job_waits_for_min_nodes(self):
        self.cluster.start_workers("w1", "w2", slow_ms=SLOW_MS)
        job = self.cluster.submit(**self.spec, nodes=2, min_nodes=2)
        self.cluster.wait_step(job, 10)
        self.cluster.kill_worker("w2")
        waiting = self.cluster.wait_state(job, "waiting")
        self.assertIn("1", waiting["reason"])
        self.cluster.start_worker("w3")
        self.succeed_with_the_same_bits(job)
        self.assertEqual([], ledger.voided_rows(self.cluster, job), "the one that waited kept its state")

    def test_a_worker_that_waits_alone_still_counts_when_everything_else_restarts(self):
        self.cluster.start_workers("w1", "w2", slow_ms=SLOW_MS)
        job = self.cluster.submit(**self.spec, nodes=2, min_nodes=2)
        self.cluster.wait_step(job, 10)
        self.cluster.kill_worker("w2")
        self.cluster.wait_state(job, "waiting")
        self.cluster.service.kill()
        self.cluster.start_service()
        self.cluster.start_worker("w2")
        self.succeed_with_the_same_bits(job)
        self.assertEqual([], ledger.voided_rows(self.cluster, job))

    def test_epochs_are_steps_as_soon_as_a_worker_has_seen_the_data(self):
        spec = {**self.spec, "epochs": 4}
        del spec["total_steps"], spec["warmup_steps"]
        job = self.cluster.cli("submit", *[p for k, v in spec.items() for p in (f"--{k}", str(v))], "--logging_steps", 20).strip()
        self.assertIsNone(self.cluster.job(job)["total_steps"])
        self.assertIn("0/?", self.cluster.cli("ls"))
        self.cluster.start_workers("w1", "w2")
        counted = self.cluster.wait_state(job, "succeeded")
        tokens = self.cluster.cli_json("data", "info", spec["train_data_path"])["tokens"]
        steps = -(-4 * ((tokens - 1) // spec["block_size"]) // spec["global_batch_size"])
        self.assertEqual((steps, steps), (counted["step"], counted["total_steps"]))
        expected = [f"step {20 * i} of {steps}: loss" for i in range(1, steps // 20 + 1)]

        def told():  # lines come a little after what they tell of
            lines = [line["text"] for line in self.cluster.get(f"/v1/jobs/{job}/logs?limit=1000")["logs"]]
            return [line[:line.index("loss") + 4] for line in lines if f" of {steps}: loss" in line]

        harness.wait_until(lambda: len(told()) >= len(expected), 10, f"the lines of {job} in its log")
        self.assertEqual(expected, told())
        del spec["epochs"]
        given = self.cluster.submit(**spec, total_steps=steps)
        self.assertEqual(counted["state_hash"], self.cluster.wait_state(given, "succeeded")["state_hash"], "the same job, counted in steps")

    def test_one_command_starts_a_worker_for_each_device_of_a_machine(self):
        low = free_port()
        command = self.cluster.spawn("box", [self.cluster.worker_program, "--server", self.cluster.url, "--name", "box", "--devices", "cpu:2",
                                             "--threads", "2", "--ring_port", f"{low}-{min(low + 9, 65535)}", "--interface", "lo"], {})
        self.cluster.wait_workers("box-0", "box-1")
        ports = {int(node["address"].rpartition(":")[2]) for node in self.cluster.nodes()}
        self.assertEqual((2, True), (len(ports), all(low <= port <= low + 9 for port in ports)))
        job = self.cluster.submit(**{**self.spec, "total_steps": 100_000, "checkpoint_every": 0, "hash_every": 0}, nodes=2)
        self.cluster.wait_step(job, 10)
        self.assertEqual(2, self.cluster.job(job)["world_size"])

        def loads():
            nodes = [node["load"] for node in self.cluster.nodes()]
            return all(load["busy"] for load in nodes) and nodes
        for load in harness.wait_until(loads, 20, "the two to tell how busy they are"):
            self.assertTrue(0 < load["busy"] <= 1 and load["memory_used_bytes"] > 1 << 20, load)
            self.assertEqual((None, None), (load["watts"], load["celsius"]))
        self.assertRegex(self.cluster.cli("nodes"), r"box-1 .* \d+% ")
        self.cluster.cli("stop", job)
        command.signal(15)
        self.assertEqual(0, command.wait_exit(timeout_s=30))
        harness.wait_until(lambda: {node["state"] for node in self.cluster.nodes()} == {"left"}, 10, "both to have left")

    def flags_of(self, spec):
        return [word for name, value in spec.items() for word in (f"--{name}", str(value))]

    def trials(self):
        return [job["id"] for job in self.cluster.get("/v1/jobs?label=trial=auto")["jobs"]]

    def test_auto_learns_by_a_trial_and_takes_settings_that_train_the_same(self):
        self.cluster.start_workers("w1", "w2")
        said = self.cluster.cli("submit", "--auto", *self.flags_of(self.spec), "--nodes", 2)
        print(said)
        trial, = self.trials()
        self.assertRegex(said, rf"(?s)^j\d+\ntrial {trial}: .*\n2 nodes (do|are slower than one).*\none node alone .* 1\.00x\nas asked .*\nthe same training ")
        self.assertRegex(said, rf"\ndevice  .* a microbatch: measured by job {trial} .*\nlink    .* each way, .*: measured by job {trial} ")
        tried = self.cluster.job(trial)
        self.assertEqual(("cancelled", "trial", None), (tried["state"], tried["name"], tried["latest_checkpoint"]))
        self.assertGreaterEqual(tried["step"], 8)
        self.assertEqual([], self.cluster.get(f"/v1/jobs/{trial}/objects")["keys"], "a trial keeps nothing")

        job = said.split()[0]
        planned = self.cluster.wait_state(job, "succeeded")
        chosen = {name: planned["spec"][name] for name in ("wire_dtype", "overlap", "recompute", "batch_size", "global_batch_size")}
        self.assertEqual((2, 12), (chosen["batch_size"], chosen["global_batch_size"]), "these were given by name")
        by_hand = self.cluster.submit(**{**self.spec, **chosen}, nodes=2)
        self.assertEqual(planned["state_hash"], self.cluster.wait_state(by_hand, "succeeded")["state_hash"])
        self.assertEqual(chosen["wire_dtype"] == "int32", planned["state_hash"] == self.reference, "another exact wire type has other bits")

        again = self.cluster.cli_json("submit", "--auto", *self.flags_of(self.spec), "--nodes", 2)
        self.assertEqual([trial], self.trials(), "what is known needs no second trial")
        self.assertIn(trial, again["plan"]["link_source"])
        self.assertRegex(again["plan"]["device_source"], rf"job ({job}|{by_hand}) ")

    def test_auto_says_what_to_do_where_there_is_nothing_to_go_by(self):
        self.cluster.start_workers("w1")
        flags = ("submit", "--auto", *self.flags_of({**self.spec, "n_layer": 1}))  # a model that no job here has trained
        self.assertIn("a trial needs 2 free workers where 1 is. Wait for them, give --microbatch_s", self.cluster.cli(*flags, "--nodes", 2, expect=2))
        self.assertIn('model: "huge" is not one of tiny', self.cluster.cli(*flags, "--nodes", 2, "--model", "huge", expect=2))
        gone = {"HOLDFAST_SERVER": f"http://127.0.0.1:{free_port()}"}
        self.assertIn(gone["HOLDFAST_SERVER"], self.cluster.cli(*flags, "--nodes", 2, environment=gone, expect=3))
        said = self.cluster.cli(*flags, "--nodes", 2, "--reduction", "float", "--microbatch_s", 0.01, "--link_mb_s", 100, "--dry_run")
        self.assertIn("note: with reduction float the wire type stays as it is", said)
        before = len(self.cluster.get("/v1/jobs")["jobs"])
        one = self.cluster.cli(*flags)
        self.assertIn("One node: nothing is on the link, and the job stays as it is.", one)
        self.assertEqual(before + 1, len(self.cluster.get("/v1/jobs")["jobs"]))

    def test_ctrl_c_ends_the_trial_and_submits_nothing(self):
        self.cluster.start_workers("w1", "w2", slow_ms=SLOW_MS)
        self.cluster.crawl()
        submitting = self.cluster.spawn("submitting", [f"{harness.BIN}/holdfast", "submit", "--auto", *self.flags_of(self.spec), "--nodes", "2"],
                                        {"HOLDFAST_SERVER": self.cluster.url})
        trial, = harness.wait_until(self.trials, 20, "the trial")
        self.cluster.wait_step(trial, 1)
        submitting.signal(2)
        self.assertEqual(130, submitting.wait_exit())
        self.assertEqual("cancelled", self.cluster.wait_state(trial, "cancelled")["state"])
        self.assertIn(f"{trial}, the trial, is stopped; nothing was submitted", submitting.log())
        self.assertNotIn("queued", [job["state"] for job in self.cluster.get("/v1/jobs")["jobs"]])

    def test_sixteen_bits_of_computing_alone_are_warned_of(self):
        def submitted(**changes):
            return self.cluster.request("POST", "/v1/jobs", {**self.spec, "dtype": "bfloat16", "nodes": 2, **changes})[1]

        self.assertEqual(["dtype bfloat16 is the type of computing; gradients go over the network in int32, 4 bytes each: wire_dtype int16 sends "
                          "half as many and is as exact"], submitted()["warnings"])
        for meant in ({"wire_dtype": "int32"}, {"dtype": "float32"}, {"nodes": 1, "max_nodes": 1}):
            self.assertEqual([], submitted(**meant)["warnings"], meant)

    def test_the_command_line_shows_it_all(self):
        self.cluster.start_workers("w1")
        job = self.cluster.cli_json("submit", *[p for k, v in self.spec.items() for p in (f"--{k}", str(v))], "--eval_every", 20)["id"]
        self.cluster.cli("wait", job)
        shown = self.cluster.cli_json("show", job)
        fields = {"id", "state", "reason", "step", "total_steps", "loss", "generation", "world_size", "workers", "restarts",
                  "tokens_per_second", "eta_s", "latest_checkpoint", "state_hash", "state_hash_step", "validation_loss"}
        self.assertEqual(set(), fields - set(shown))
        self.assertEqual(("succeeded", 60, 60), (shown["state"], shown["step"], shown["latest_checkpoint"]["step"]))
        self.assertIsNotNone(shown["validation_loss"])
        harness.wait_until(lambda: self.cluster.cli("logs", job).strip(), 10, "lines of the log, which a worker sends at leisure")
        for command in (["ls"], ["show", job], ["events", job], ["nodes"], ["checkpoints", job], ["ckpt", "ls", job],
                        ["ckpt", "verify", job], ["ckpt", "show", job]):
            self.assertTrue(self.cluster.cli(*command).strip(), command)
        self.assertIn(job, self.cluster.cli("ls"))
        self.assertTrue({"job_submitted", "generation_formed", "checkpoint_committed", "job_succeeded"} <=
                        {e["kind"] for e in self.cluster.cli_json("events", job)["events"]})

    def test_a_mixture_of_files_has_the_same_bits_when_a_worker_is_killed(self):
        files = [self.spec["train_data_path"], self.spec["valid_data_path"]]
        spec = {**self.spec, "train_data_path": f"{files[0]}:0.7,{files[1]}:0.3"}
        self.cluster.start_workers("w1")
        undisturbed = self.cluster.wait_state(self.cluster.submit(**spec), "succeeded")["state_hash"]
        self.assertNotEqual(self.reference, undisturbed)
        self.cluster.stop_workers()
        self.cluster.start_workers("w2", "w3", slow_ms=SLOW_MS)
        job = self.cluster.submit(**spec, nodes=2)
        self.cluster.wait_step(job, 20)
        self.cluster.kill_worker("w3")
        self.assertEqual(undisturbed, self.cluster.wait_state(job, "succeeded")["state_hash"])
        ledger.assert_every_microbatch_once(self, self.cluster, job, 60, files)


if __name__ == "__main__":
    harness.main()
