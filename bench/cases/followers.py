"""64 followers of one log, slow readers among them: how late a line is, what others wait, whether the service grows."""
import testbed
import harness  # (testbed knows where it is)
import log_followers

TITLE = "64 followers of one log, 8 of them slow, 500 lines/s"
NOTE = ("Ours: tests/e2e/log_followers.py, all followers in one Python process beside the service. Every one checks that "
        "each line comes once and in order; slow ones read 8 kB a second, are cut off and come back with Last-Event-ID, and have "
        "seen all in the end. A line is late by the time from before it was posted to when a quick follower had it. Memory is the "
        "service's, the most in the first and in the last third of the run.")
REPEAT = 1
SECONDS, QUICK_SECONDS = 600, 60


def measure(options):
    seconds = QUICK_SECONDS if options.quick else SECONDS
    # A slow reader falls minutes behind: with the default of 100,000 lines it would be told how many are gone.
    with testbed.Testbed("--log_lines_per_job", "1000000") as cluster:
        job = cluster.submit(**harness.small_spec(cluster.folder, nodes=1))
        found = log_followers.follow(cluster, job, seconds=seconds)
    if not found["last_line_seen_by_all"] or found["others_were_cut_off"]:
        raise SystemExit(f"a follower missed lines, or was cut off: {found}")
    rows = [(f"lines that each follower saw in {seconds} s", "count", "lines"),
            ("slow ones cut off", "count", "slow_were_cut_off"),
            ("a line is late, p50", "ms", "line_p50_ms"), ("a line is late, p99", "ms", "line_p99_ms"),
            ("somebody asks for the job, p50", "ms", "ask_p50_ms"), ("somebody asks for the job, p99", "ms", "ask_p99_ms"),
            ("RSS, first third", "MB", "memory_first_third_mb"), ("RSS, last third", "MB", "memory_last_third_mb")]
    return [testbed.row(label, unit, found[key], note=NOTE) for label, unit, key in rows]
