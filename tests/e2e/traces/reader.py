"""Reads a trace in Chrome's trace event format (JSON object form), strictly: whatever Perfetto would have to guess is an error.

Written from the format's description alone; it shares nothing with what writes the trace."""
import collections
import json

PHASES = {"M", "X"}
METADATA = {"process_name", "process_sort_index", "thread_name", "thread_sort_index"}
NS = 1e-3  # times are rounded to nanoseconds


class Span:
    def __init__(self, event):
        self.name, self.kind, self.begin, self.duration = event["name"], event["cat"], event["ts"], event["dur"]
        self.end = self.begin + self.duration
        self.arguments = event.get("args", {})
        self.children = []

    def own(self):
        return self.duration - sum(child.duration for child in self.children)


class Trace:
    """processes: {pid: name}; threads: {(pid, name): [outermost spans]}; all times in microseconds."""

    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            document = json.load(file, parse_constant=self.refuse_constant)
        self.metadata = document["otherData"]
        self.processes, names = {}, {}
        spans = collections.defaultdict(list)
        for event in document["traceEvents"]:
            place = (event["pid"], event["tid"])
            if event["ph"] not in PHASES:
                raise AssertionError(f"an event of a kind that is not expected: {event}")
            if event["ph"] == "X":
                spans[place].append(Span(event))
            elif event["name"] not in METADATA:
                raise AssertionError(f"metadata that are not expected: {event}")
            elif event["name"] == "process_name":
                self.processes[event["pid"]] = event["args"]["name"]
            elif event["name"] == "thread_name":
                names[place] = event["args"]["name"]
        self.threads = {(pid, names[pid, tid]): self.nested(of) for (pid, tid), of in spans.items()}

    @staticmethod
    def refuse_constant(word):
        raise AssertionError(f"{word} is no JSON")

    @staticmethod
    def nested(spans):
        """The outermost spans, each with those within it; a span that overlaps another one in part is an error."""
        outermost, open_spans = [], []
        for span in sorted(spans, key=lambda each: (each.begin, -each.duration)):
            if span.begin < 0 or span.duration < 0:
                raise AssertionError(f"{span.name} begins at {span.begin} and takes {span.duration}")
            while open_spans and open_spans[-1].end <= span.begin + NS:
                open_spans.pop()
            if open_spans and span.end > open_spans[-1].end + NS:
                raise AssertionError(f"{span.name} at {span.begin} reaches beyond {open_spans[-1].name}, in which it begins")
            (open_spans[-1].children if open_spans else outermost).append(span)
            open_spans.append(span)
        return outermost

    def every(self, pid, thread=None):
        """All spans of a process, or of one of its threads."""
        waiting = [span for (process, name), spans in self.threads.items() if process == pid and thread in (None, name) for span in spans]
        while waiting:
            span = waiting.pop()
            waiting += span.children
            yield span
