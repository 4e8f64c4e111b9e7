"""torchrun's elasticity on one machine: two agents train, one is killed (-9), later another joins. Prints one JSON object.

torchrun.py [--at_best]      --at_best: the rendezvous' last call waits 1 s, not 30, agents look at their processes each 0.2 s, and
                             tell each other that they live each 1 s (PyTorch 1.13 does not read that: 3 x 5 s)

Steps take 50 ms and every 20th is a checkpoint, the usual way for torchrun's users: after a fault all processes start again from
the last one. `killed_s`, `joined_s`: to the next step of the new world; `again`: steps that were done twice; null where no step came."""
import argparse
import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

STEP_S, CHECKPOINT_EVERY = 0.05, 20
AT_BEST = ("--rdzv_conf=last_call_timeout=1,keep_alive_interval=1,keep_alive_max_attempt=3", "--monitor_interval=0.2")
WAIT_S = 180


def train(checkpoint):
    """The training process that an agent starts."""
    import torch
    import torch.distributed as dist
    dist.init_process_group("gloo")
    step = torch.load(checkpoint)["step"] if os.path.exists(checkpoint) else 0
    agent_pid = os.getppid()
    while os.getppid() == agent_pid:  # nothing stays behind when a bench is ended
        dist.all_reduce(torch.ones(1000))
        step += 1
        time.sleep(STEP_S)
        if dist.get_rank() == 0:
            print(json.dumps({"time": time.time(), "step": step, "world": dist.get_world_size()}), flush=True)
            if step % CHECKPOINT_EVERY == 0:
                torch.save({"step": step}, checkpoint + ".part")
                os.replace(checkpoint + ".part", checkpoint)


def agent(arguments):
    """torchrun itself. PyTorch 1.13's launcher trips over the enums of Python 3.11, where no redirection is wanted anyway."""
    import torch
    if torch.__version__.startswith("1."):
        import torch.distributed.elastic.multiprocessing as mp
        from torch.distributed.elastic.multiprocessing import api
        api.to_map = mp.to_map = lambda value, count: {i: api.Std(0) for i in range(count)}
    from torch.distributed.run import main
    sys.argv = ["torchrun", *arguments]
    main()


def end_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


class Agents:
    def __init__(self, folder, flags):
        self.folder, self.flags, self.processes = folder, flags, []

    def start(self):
        arguments = ["--nnodes=1:2", "--nproc_per_node=1", "--rdzv_backend=c10d", "--rdzv_endpoint=127.0.0.1:29600", "--rdzv_id=peer",
                     "--max_restarts=100", *self.flags, os.path.abspath(__file__), "--trainer", os.path.join(self.folder, "checkpoint.pt")]
        with open(self.log(len(self.processes)), "w", encoding="utf-8") as log:
            self.processes.append(subprocess.Popen([sys.executable, os.path.abspath(__file__), "--agent", *arguments], stdout=log,
                                                   stderr=subprocess.STDOUT, start_new_session=True, preexec_fn=end_with_parent,
                                                   env={**os.environ, "GLOO_SOCKET_IFNAME": "lo"}))

    def log(self, number):
        return os.path.join(self.folder, f"{number}.log")

    def kill(self, number):
        """The agent and what it started, at once, as a machine's end does it."""
        children = subprocess.run(["ps", "-o", "pid=", "--ppid", str(self.processes[number].pid)], capture_output=True, text=True, check=False)
        for pid in (self.processes[number].pid, *map(int, children.stdout.split())):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def steps(self):
        found = []
        for number in range(len(self.processes)):
            with open(self.log(number), encoding="utf-8", errors="replace") as log:
                found += [json.loads(line) for line in log if line.startswith("{") and line.endswith("}\n")]
        return sorted(found, key=lambda step: step["time"])

    def first(self, world, after):
        """The first step of so many ranks after that time; None when there is none for a long time."""
        end = time.time() + WAIT_S
        while time.time() < end:
            for step in self.steps():
                if step["world"] == world and step["time"] > after:
                    return step
            time.sleep(0.1)
        return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--at_best", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        agents = Agents(folder, AT_BEST if options.at_best else ())
        try:
            agents.start()
            time.sleep(3)  # it makes the store that the other one connects to
            agents.start()
            if not agents.first(2, 0):
                sys.exit("torchrun.py: two agents never formed")
            while agents.steps()[-1]["step"] < 2 * CHECKPOINT_EVERY or agents.steps()[-1]["step"] % CHECKPOINT_EVERY != CHECKPOINT_EVERY // 2:
                time.sleep(STEP_S / 5)  # midway between two checkpoints, as faults come on the average
            before, killed_at = agents.steps()[-1]["step"], time.time()
            agents.kill(1)
            alone = agents.first(1, killed_at)
            joined_at = time.time()
            agents.start()
            together = agents.first(2, joined_at)
        finally:
            for number in range(len(agents.processes)):
                agents.kill(number)
    print(json.dumps({"killed_s": alone and alone["time"] - killed_at, "again": alone and max(0, before - alone["step"] + 1),
                      "joined_s": together and together["time"] - joined_at}))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--trainer"]:
        train(sys.argv[2])
    elif sys.argv[1:2] == ["--agent"]:
        agent(sys.argv[2:])
    else:
        main()
