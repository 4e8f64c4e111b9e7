"""All jobs, keys and events of a store, as it has them at last: the jobs and events by the service, the keys by the database."""
import json


class StoreRead:
    def __init__(self, cluster):
        database = cluster.address.split("/")[-1].split("?")[0]
        rows = cluster.database.query("SELECT json_build_object('id', id, 'name', name, 'state', state, 'spec', CAST(spec AS json)) "
                                      "FROM jobs ORDER BY number", database)
        self.jobs = [json.loads(row) for row in rows.splitlines()]
        rows = cluster.database.query("SELECT json_build_array(key, job) FROM idempotency", database)
        self.keys = [tuple(json.loads(row)) for row in rows.splitlines()]
        self.term = int(cluster.database.query("SELECT term FROM leadership", database))
        self.events = list(events_of(cluster))


def events_of(cluster):
    """[(id, event)] by the service, page by page."""
    after = 0
    while True:
        page = cluster.get(f"/v1/events?after={after}&limit=1000")["events"]
        for event in page:
            yield event["id"], event
        if not page:
            return
        after = page[-1]["id"]
