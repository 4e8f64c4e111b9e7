"""What random faults of the service that leads came to, for people: a line each, and a section of bench/FAULTS.md."""
import dataclasses
import datetime
import statistics

from fault_matrix import report, sections

OF_LEADER = ("## Several services: the one that leads fails", "The one that leads fails at random moments.")
OF_DATABASE = ("## Several services: their database fails", "Their database fails at random moments; where nobody can go on before it is back, times are from then on.")
TAKEN_WITHIN_S, LATE_AT_MOST_S = 5.0, 0.1


@dataclasses.dataclass
class FaultOutcome:
    kind: str
    began: float
    lasted_s: float
    passed: bool            # another one led at last
    taken_s: float = None   # until a submission that began after the fault was acknowledged
    wait_s: float = None    # the longest that a client waited for an acknowledgement, all its tries together
    late_s: float = None    # by how much the latest step came later than usual


def line(outcome):
    return (f"{outcome.kind}, for {outcome.lasted_s:.1f} s: a submission was taken after {outcome.taken_s:.2f} s, the longest wait {outcome.wait_s:.2f} s, "
            f"the latest step {outcome.late_s * 1000:.0f} ms late, the lead {'passed' if outcome.passed else 'stayed'}")


def row(name, of_kind):
    taken, waits, late = ([getattr(o, field) for o in of_kind] for field in ("taken_s", "wait_s", "late_s"))
    kept = "yes" if max(taken) <= TAKEN_WITHIN_S and max(late) <= LATE_AT_MOST_S else "**no**"
    return (f"| {name} | {len(of_kind)} | {sum(o.passed for o in of_kind)} | {statistics.median(taken):.2f} | {max(taken):.2f} | {max(waits):.2f} | "
            f"{statistics.median(late) * 1000:.0f} | {max(late) * 1000:.0f} | {kept} |")


def table(outcomes):
    kinds = list(dict.fromkeys(o.kind for o in outcomes))
    return ["| fault | times | lead passed | taken again, median s | worst, s | longest wait, s | latest step, median ms | worst, ms | kept |",
            "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |",
            *(row(kind, [o for o in outcomes if o.kind == kind]) for kind in sorted(kinds)), ""]


def rows_of(title, outcomes, complaints, command, took_s, meanings, quiet):
    promises = ("**Every promise was kept**: each acknowledged submission is one job with its id and its spec, no key made two, each event came once "
                "and in order to whoever followed, each step of the long job was done once, and its last state has the bits of an undisturbed run."
                if not complaints else f"**{len(complaints)} promises were broken**, the first: {complaints[0]}")
    return [title[0], "",
            "Two services, one PostgreSQL, four workers that train one job, three clients that submit and stop small jobs by `holdfast submit` and",
            f"`holdfast stop` all the time, and one that follows all events; each on a node of its own. {title[1]}", "",
            promises, "", *table(outcomes), quiet, "",
            f"Written by `{command}` on {datetime.date.today()}, commit {report.command_output('git', 'rev-parse', '--short', 'HEAD')}, in {took_s:.0f} s; "
            f"{report.machine()}.", "",
            f"*Taken again*: from the fault to the acknowledgement of a submission that began after it, by programs that ask again as they are; bound "
            f"{TAKEN_WITHIN_S:.0f} s. *Longest wait*: of one client, from its first try to its acknowledgement. *Latest step*: beyond the usual distance "
            f"of two steps; bound {LATE_AT_MOST_S * 1000:.0f} ms. A fault lasts 2 to 8 s.", "",
            "; ".join(f"*{name}*: {text}" for name, text in meanings.items()) + ".", ""]


def write_section(path, title, *content):
    sections.put(path, title[0], rows_of(title, *content))
