"""The manual's commands about clusters."""
import signal

from processes import wait_until


def run(test):
    """Launches are refused here, with all their words taken: a cluster is needed, which tests/e2e/slurm and tests/e2e/ssh have."""
    with open(f"{test.folder}/job.json", "w", encoding="utf-8") as file:
        file.write('{"train_data_path": "data/train.bin"}')
    test.run_line('holdfast submit --config job.json --nodes 4 --launch slurm --launch_options="--partition=gpu --time=2-0" --watch', status=2,
                  says="there is no sbatch|do not reach the service")
    test.run_line('holdfast submit --config job.json --launch ssh --hosts node1,node2:2 --worker_options="--device cpu"', status=2,
                  says="do not reach the service")
    test.run_line("holdfast-worker --server http://FIRST:7070 --job j7", ("FIRST", "127.0.0.1"), ("j7", "j777"), status=2, says='came for job "j777" alone')
    hooked = test.start("hooked", "holdfast serve --listen 0.0.0.0:7070 --allow_insecure --scale_hook /usr/local/bin/scale_workers",
                        ("0.0.0.0:7070", "127.0.0.1:7445 --data_dir $PWD/fourth"), ("/usr/local/bin/scale_workers", "/bin/true"))
    wait_until(lambda: "serves at" in hooked.log() or test.ended_early(hooked), 20, "the service to be ready")
    hooked.signal(signal.SIGTERM)
    hooked.wait_exit()
