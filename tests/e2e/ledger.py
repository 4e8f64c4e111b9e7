"""Reads a job's ledger and judges it without the product's own audit: every microbatch of every step, once."""


def microbatches_by_step(ledger):
    """{step: sorted microbatches} over the rows that stand (steps are counted from 1, ranges of microbatches half-open)."""
    done = {}
    for row in ledger["rows"]:
        if row.get("voided_by"):
            continue
        for step in range(row["first_step"], row["last_step"] + 1):
            done.setdefault(step, []).extend(range(row["first_microbatch"], row["last_microbatch"]))
    return {step: sorted(ids) for step, ids in done.items()}


def assert_every_microbatch_once(test, cluster, job, steps, data=None):
    """By our own reading, and by `holdfast audit`, which with `data`, a file or those of a mixture, also computes every step's digest
    again."""
    ledger = cluster.get(f"/v1/jobs/{job}/ledger")
    expected = {step: list(range(ledger["microbatches"])) for step in range(1, steps + 1)}
    test.assertEqual(expected, microbatches_by_step(ledger), ledger)
    test.assertEqual(list(range(1, steps + 1)), sorted(s["step"] for s in ledger["steps"]))
    files = [data] if isinstance(data, str) else data or []
    cluster.cli("audit", job, *(word for file in files for word in ("--data", file)))


def voided_rows(cluster, job):
    return [row for row in cluster.get(f"/v1/jobs/{job}/ledger")["rows"] if row.get("voided_by")]
