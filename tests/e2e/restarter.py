"""Starts the service again whenever it ended, as systemd would: for drills that kill it."""
import threading

from processes import POLL_S


class Restarter:
    """`with Restarter(cluster):` for as long as the service is to be there."""

    def __init__(self, cluster):
        self.cluster, self.ending = cluster, threading.Event()
        self.thread = threading.Thread(target=self.watch, daemon=True)

    def watch(self):
        while not self.ending.wait(POLL_S):
            if not self.cluster.service.running():
                self.cluster.start_service()

    def __enter__(self):
        self.thread.start()

    def __exit__(self, *_):
        self.ending.set()
        self.thread.join()
