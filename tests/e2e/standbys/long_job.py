"""A job that trains while services fail: paced steps, when each was confirmed, and what its end must be.

Every worker notes the moment at which it confirmed each step; a step is late by as much as it came after the one before it later than
steps of this job usually do."""
import os
import statistics
import time

import harness
import ledger

PACE_MS = 60
MODEL = dict(n_layer=1, n_embd=32, n_head=2, block_size=32, batch_size=1, global_batch_size=4, hash_every=100, checkpoint_every=2000)


class LongJob:
    def __init__(self, cluster, workers, steps):
        self.cluster, self.workers, self.steps = cluster, workers, steps
        self.job = self.undisturbed = self.shown = None
        self.trace, self.pace = os.path.join(cluster.folder, "trace"), os.path.join(cluster.folder, "pace")
        self.first, self.read_to = {}, 0  # step -> when it was confirmed first; how much of the trace was read

    def spec(self, nodes):
        return harness.small_spec(self.cluster.folder, nodes=nodes, min_nodes=nodes, max_nodes=nodes, total_steps=self.steps, valid_data_path="",
                                  **MODEL)

    def find_undisturbed_hash(self):
        """Of one worker alone, whom nobody disturbs."""
        self.cluster.start_workers("alone")
        alone = self.cluster.submit(**self.spec(1))
        self.undisturbed = self.cluster.wait_state(alone, "succeeded", timeout_s=600)["state_hash"]
        self.cluster.stop_workers()

    def begin(self):
        with open(self.pace, "wb"):
            pass
        rules = f"slow@step:ms={PACE_MS}:while_file={self.pace},note@confirmed:file={self.trace}"
        self.cluster.start_workers(*self.workers, environment={"HOLDFAST_FAULT": rules})
        self.job = self.cluster.submit(**self.spec(len(self.workers)))
        self.cluster.wait_step(self.job, 20)

    def finish(self):
        """The rest of its steps without pauses, to its end."""
        if self.cluster.job(self.job)["state"] != "running":
            raise AssertionError("the long job ended before the faults did: it was to train through all of them; give it more steps")
        os.unlink(self.pace)
        self.shown = self.cluster.wait_state(self.job, "succeeded", timeout_s=900)

    def complaints(self):
        found = []
        if self.shown["state_hash"] != self.undisturbed:
            found.append(f"the long job ended with the state {self.shown['state_hash']}, an undisturbed one with {self.undisturbed}")
        if self.shown["restarts"] != 0:
            found.append(f"the long job began {self.shown['restarts']} times anew")
        if ledger.voided_rows(self.cluster, self.job):
            found.append(f"steps of the long job were lost: {ledger.voided_rows(self.cluster, self.job)}")
        try:
            self.cluster.cli("audit", self.job, "--data", os.path.join(self.cluster.folder, "train.bin"), timeout_s=300)
        except AssertionError as error:
            found.append(" ".join(str(error).split())[:600])
        return found

    # --- how late steps were

    def confirmed(self):
        """[(step, when)] so far, in the order of steps."""
        with open(self.trace, encoding="utf-8") as trace:
            trace.seek(self.read_to)
            for line in trace:
                if not line.endswith("\n"):
                    break  # it is being written
                self.read_to += len(line)
                moment, _, step, _ = line.split()
                self.first[int(step)] = min(float(moment), self.first.get(int(step), float("inf")))
        return sorted(self.first.items())

    def lateness(self, since, until):
        """Of each step that was confirmed, or due, in between: seconds beyond the usual distance to the one before."""
        at = [moment for _, moment in self.confirmed()]
        gaps = [(after, after - before) for before, after in zip(at, at[1:])]
        if not gaps:
            return []
        usual = statistics.median(gap for _, gap in gaps)
        late = [gap - usual for moment, gap in gaps if since <= moment <= until]
        return [*late, min(until, time.time()) - at[-1] - usual] if at[-1] < until else late

    def latest(self, since, until):
        return max([0.0, *self.lateness(since, until)])
