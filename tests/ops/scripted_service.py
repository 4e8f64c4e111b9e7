"""A service with prepared answers, for tests that run the program itself. It can be stopped, and started again on its port.

Promises: lists, one job, and followed events and logs are answered as by the real service, with ids and Last-Event-ID. A
follower gets rows that are added while it listens. Everything ends with stop()."""
import http.server
import json
import threading
import urllib.parse


def a_job(number, state="running", **more):
    job = {"id": f"j{number}", "name": "", "state": state, "reason": "", "step": 40, "total_steps": 60, "loss": 3.41234,
           "validation_loss": None, "generation": 1, "world_size": 2, "restarts": 0, "tokens_per_second": 10240.4,
           "eta_s": 134.2, "latest_checkpoint": {"step": 20, "age_s": 14.2}, "state_hash": None,
           "submitted_at": "2026-01-02T03:04:05.678Z", "workers": [],
           "spec": {"train_data_path": "/d/train.bin", "batch_size": 2}}
    job.update(more)
    return job


class ScriptedService:
    def __init__(self):
        self.changed = threading.Condition()
        self.jobs, self.nodes, self.rows = [], [], {}  # rows: "j1/logs" -> list
        self.port, self.server, self.thread = 0, None, None
        self.requests = []
        self.start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def start(self):
        service = self

        class Handler(Answers):
            scripted = service

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads, block_on_close = True, False

        self.server = Server(("127.0.0.1", self.port), Handler)
        self.server.going = True
        self.port = self.server.server_port
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True)
        self.thread.start()

    def stop(self):
        """Ends all answers: followers are cut off, and new connections are refused."""
        with self.changed:
            self.server.going = False
            self.changed.notify_all()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def change(self, job, **values):
        with self.changed:
            next(j for j in self.jobs if j["id"] == job).update(values)
            self.changed.notify_all()

    def add(self, path, **row):
        with self.changed:
            rows = self.rows.setdefault(path, [])
            rows.append({"id": len(rows) + 1, "time": "2026-01-02T03:04:05.678Z", **row})
            self.changed.notify_all()


class Answers(http.server.BaseHTTPRequestHandler):
    scripted = None

    def do_GET(self):
        path, _, text = self.path.partition("?")
        query = dict(urllib.parse.parse_qsl(text))
        with self.scripted.changed:
            self.scripted.requests.append(self.path)
        parts = path.strip("/").split("/")
        if parts == ["v1", "jobs"]:
            found = [j for j in self.scripted.jobs if query.get("state", j["state"]) == j["state"]]
            return self.answer({"jobs": found[:int(query.get("limit", 100))], "next_page_token": None})
        if parts == ["v1", "nodes"]:
            return self.answer({"nodes": self.scripted.nodes, "next_page_token": None})
        if parts[:2] == ["v1", "jobs"] and len(parts) == 3:
            found = [j for j in self.scripted.jobs if j["id"] == parts[2]]
            return self.answer(found[0]) if found else self.answer({"status": 404, "detail": f"no job {parts[2]}"}, 404)
        if parts[:2] == ["v1", "jobs"] and len(parts) == 4:
            return self.rows(parts[3], "/".join(parts[2:]), query)
        return self.answer({"status": 404, "detail": "nothing here"}, 404)

    def answer(self, body, status=200):
        with self.scripted.changed:
            data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def rows(self, name, path, query):
        if query.get("follow"):
            return self.follow(path, int(self.headers.get("Last-Event-ID") or 0))
        rows = [r for r in self.scripted.rows.get(path, []) if r["id"] > int(query.get("after", 0))]
        if "tail" in query:
            rows = rows[-int(query["tail"]):]
        return self.answer({name: rows, "next_page_token": None})

    def follow(self, path, after):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        while True:
            with self.scripted.changed:
                self.scripted.changed.wait_for(
                    lambda: not self.server.going or len(self.scripted.rows.get(path, [])) > after or self.has_ended(path), timeout=60)
                rows = self.scripted.rows.get(path, [])[after:] if self.server.going else []
            if not rows:
                return  # the connection ends, too, because this server speaks HTTP/1.0
            for row in rows:
                self.wfile.write(f"id: {row['id']}\ndata: {json.dumps(row)}\n\n".encode())
            self.wfile.flush()
            after = rows[-1]["id"]

    def has_ended(self, path):
        return any(job["id"] == path.split("/")[0] and job["state"] in ("succeeded", "failed", "cancelled") for job in self.scripted.jobs)

    def log_message(self, *_):
        pass
