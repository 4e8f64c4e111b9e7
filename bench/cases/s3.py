"""A checkpoint of Tiny in S3: how fast it is written and read back, beside awscli with the same bytes and the same server; the stall."""
import os
import shutil
import sys

import peer_python
import testbed

sys.path.insert(0, os.path.join(testbed.ROOT, "tests", "storage", "s3"))
import servers  # noqa: E402

TITLE = "Checkpoint of Tiny in S3: 362 MB, of which 295 are stored, on a server of the same machine"
NOTE = ("The server is s3rver (npm), on the same cores. Ours packs (byte planes, zstd) and sends, while nobody trains, and what is read back "
        "is checked and unpacked; MB are of stored bytes. awscli (`aws s3 cp --recursive`) sends and fetches those files as they are; at its best with the quickest of {settings} settings of "
        "max_concurrent_requests and multipart_chunksize, each way (with its CRT client it does not get along with this server); the time that it takes to say its version, {start:.2f} s, is taken off. "
        "The stall is that of a job that trains on, beside one with a folder.")
SETTINGS = ("", *(f"max_concurrent_requests = {requests}\n    multipart_chunksize = {chunk}\n    multipart_threshold = {chunk}"
                  for requests, chunk in ((2, "64MB"), (4, "16MB"), (20, "8MB"))))  # the first: as installed
THREADS = min(4, os.cpu_count())
EVERY, STEPS = 40, 120


def run(cluster, place, **changes):
    """The catalogue's rows of a job with this store, and its id."""
    job = cluster.submit(**testbed.tiny_spec(cluster.folder, batch_size=1, keep_last=0, checkpoint_store=place, **changes))
    cluster.wait_state(job, "succeeded", timeout_s=600)
    return job, cluster.get(f"/v1/jobs/{job}/checkpoints")["checkpoints"]


def measure_once():
    taken = {}
    with testbed.Testbed() as cluster:
        server = servers.S3rver(os.path.join(cluster.folder, "server"))
        try:
            for name, value in server.environment().items():
                if name.startswith("AWS_"):
                    os.environ[name] = value
            cluster.start_workers("w1", threads=THREADS)
            folder, bucket = os.path.join(cluster.folder, "folder"), server.place("ours")
            for name, place in (("folder", folder), ("s3", bucket)):
                _, rows = run(cluster, place, total_steps=STEPS, checkpoint_every=EVERY)
                taken[f"{name}_stall"] = testbed.median([row["stall_s"] for row in rows])
            job, rows = run(cluster, bucket, total_steps=2, checkpoint_every=0)
            stored = rows[0]["stored_bytes"] / 1e6
            taken["write"] = stored / rows[0]["write_s"]
            taken["read"] = stored / testbed.seconds(lambda: cluster.cli("ckpt", "verify", f"job:{job}", "--threads", str(THREADS), timeout_s=600))
            job, _ = run(cluster, folder, total_steps=2, checkpoint_every=0)
            files, back = os.path.join(folder, job), os.path.join(cluster.folder, "back")
            program = "/usr/bin/aws"
            taken["aws_start"] = testbed.seconds(lambda: testbed.output_of([program, "--version"]))
            aws = [program, "--endpoint-url", server.endpoint, "--region", "us-east-1", "s3", "cp", "--recursive", "--quiet"]
            for number, settings in enumerate(SETTINGS):
                chosen = os.path.join(cluster.folder, f"aws{number}")
                with open(chosen, "w", encoding="utf-8") as file:
                    file.write(f"[default]\ns3 =\n    {settings}\n" if settings else "")
                environment, there, here = {"AWS_CONFIG_FILE": chosen}, f"s3://{servers.BUCKET}/theirs{number}", f"{back}{number}"
                taken["aws_write", number] = stored / (testbed.seconds(lambda: testbed.output_of([*aws, files, there], environment)) - taken["aws_start"])
                taken["aws_read", number] = stored / (testbed.seconds(lambda: testbed.output_of([*aws, there, here], environment)) - taken["aws_start"])
                shutil.rmtree(here)
        finally:
            server.stop()
    return taken


def measure(options):
    if not servers.S3rver.is_installed() or shutil.which("/usr/bin/aws") is None:
        raise SystemExit("bench/run s3: s3rver or awscli is missing: run ops/setup --page --bench")
    runs = [measure_once() for _ in range(options.repeat)]
    typical = {key: testbed.median([one[key] for one in runs]) for key in runs[0]}
    peer = {key: dict(zip(peer_python.SETUPS, (typical[key, 0], max(typical[key, number] for number in range(len(SETTINGS)))))) for key in ("aws_write", "aws_read")}
    note = NOTE.format(settings=len(SETTINGS), start=typical["aws_start"])
    return [testbed.row("written, nobody trains", "MB/s", typical["write"], peer["aws_write"], higher_is_better=True, note=note),
            testbed.row("read back, checked and unpacked", "MB/s", typical["read"], peer["aws_read"], higher_is_better=True, note=note),
            testbed.row("stall; beside it that of a folder", "s", typical["s3_stall"], reference=typical["folder_stall"], note=note)]
