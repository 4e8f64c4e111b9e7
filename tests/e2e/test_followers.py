#!/usr/bin/python3
"""64 followers of one log, slow readers among them: nobody misses a line, nobody else notices, and the service does not grow.
HOLDFAST_FOLLOW_SECONDS=600 makes it ten minutes."""
import os

import harness
import log_followers

SECONDS = float(os.environ.get("HOLDFAST_FOLLOW_SECONDS", "8"))


class Followers(harness.ClusterTest):
    def test_64_followers_of_one_log(self):
        cluster = self.cluster
        job = cluster.submit(**harness.small_spec(cluster.folder, nodes=1))
        found = log_followers.follow(cluster, job, seconds=SECONDS)
        print(f"\n{found}")
        self.assertTrue(found["last_line_seen_by_all"], found)
        self.assertEqual(0, found["others_were_cut_off"], found)
        # 64 streams hold at most 1 MiB each that was not read; what is asked for here is that time adds nothing.
        self.assertLess(found["memory_last_third_mb"], found["memory_first_third_mb"] + 30, found)


if __name__ == "__main__":
    harness.main()
