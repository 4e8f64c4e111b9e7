"""What training waits for when PyTorch saves three tensors of N elements, in each way that this PyTorch has; one JSON object a way.

checkpoint.py FOLDER [--elements N] [--threads N]

  save          torch.save with fsync: training waits for all of it
  copy          a copy in memory, then torch.save with fsync in a thread: training waits for the copy alone
  async_save    torch.distributed.checkpoint.async_save with its staged copy kept (from PyTorch 2.4 on)

Each way saves twice and the second one counts, for the first takes its memory from the kernel. `load_s` is torch.load of the first
way's file."""
import argparse
import json
import os
import shutil
import threading
import time

import torch


def write(path, state):
    with open(path, "wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())


class Save:
    def __init__(self, folder, state):
        self.path, self.state = os.path.join(folder, "save.pt"), state

    def begin(self):
        write(self.path, self.state)

    def end(self):
        pass


class Copy(Save):
    def __init__(self, folder, state):
        super().__init__(folder, state)
        self.copy = {name: torch.empty_like(tensor) for name, tensor in state.items()}
        self.thread = None

    def begin(self):
        for name, tensor in self.state.items():
            self.copy[name].copy_(tensor)
        self.thread = threading.Thread(target=write, args=(self.path, self.copy))
        self.thread.start()

    def end(self):
        self.thread.join()


class AsyncSave:
    def __init__(self, folder, state):
        from torch.distributed.checkpoint import FileSystemWriter, async_save
        self.folder, self.state, self.async_save, self.future = os.path.join(folder, "async"), state, async_save, None
        self.writer = FileSystemWriter(self.folder, sync_files=True, overwrite=True, cache_staged_state_dict=True)

    def begin(self):
        self.future = self.async_save(self.state, storage_writer=self.writer)

    def end(self):
        self.future.result()


def measure(way):
    for _ in range(2):
        start = time.perf_counter()
        way.begin()
        stalled = time.perf_counter()
        way.end()
    return {"stall_s": stalled - start}


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder")
    parser.add_argument("--elements", type=int, default=30142848)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    os.makedirs(options.folder)
    state = {name: torch.randn(options.elements) for name in ("parameters", "exp_avg", "exp_avg_sq")}
    for way in (Save(options.folder, state), Copy(options.folder, state)):
        print(json.dumps({"way": type(way).__name__.lower(), **measure(way)}), flush=True)
    path = os.path.join(options.folder, "save.pt")
    start = time.perf_counter()
    torch.load(path)
    print(json.dumps({"way": "load", "load_s": time.perf_counter() - start, "bytes": os.path.getsize(path)}), flush=True)
    try:
        way = AsyncSave(options.folder, state)
    except (ImportError, TypeError):
        return  # this PyTorch has none
    print(json.dumps({"way": "async_save", **measure(way)}), flush=True)
    shutil.rmtree(way.folder)


if __name__ == "__main__":
    main()
