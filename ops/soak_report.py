"""The soak's report: what was lost to which fault, where the time went, and whether the bits are equal."""
import datetime
import textwrap

import soak_ledger

HOW = """
Both jobs ran one after the other on this machine, the undisturbed one first, on workers that consented to drills (so both check
every byte on the ring). Throughput kept is the tokens that the disturbed job committed per second, from the beginning of the
drill to its end, over those per second of the undisturbed job. The four workers share {cores} cores, so while one is away the others take over its share of the
cores: what is lost here is what finding out, forming anew and starting processes cost, and not the node that is missing. On
nodes of their own the missing ones would cost as much again as is said under "workers that were away". A worker that is started
again uses processor time before it takes part, here at the cost of the others: that is measured for each, and the second line
of throughput kept leaves it aside, as if it had come from a spare core. Whatever else the machine did in the second run and not
in the first is noise, and has a line of its own below; the third line of throughput kept leaves it out, so it holds on a busy
machine, too. The bound is met when both the second and the third line are above it."""


def seconds_of(time_text):
    return datetime.datetime.fromisoformat(time_text.replace("Z", "+00:00")).timestamp()


def span_of(drill):
    return drill["begin_s"], drill["begin_s"] + drill["seconds"]


def causes_of(measured):
    """({cause: seconds}, seconds that workers were away)."""
    drill = measured["drill"]
    commits = [{"at": seconds_of(p["time"]), "step": p["step"], "step_s": p["step_s"], "generation": p["generation"]}
               for p in measured["metrics"]]
    events = [{"at": seconds_of(e["time"]), "kind": e["kind"]} for e in measured["events"]]
    faults = [{"at": drill["begin_s"] + f["at_s"], "kind": f["fault"], "held_s": f["held_s"]} for f in drill["faults"]]
    ranks = {}
    for row in measured["rows"]:
        ranks.setdefault(row["generation"], set()).add(row["worker"])
    members = {generation: len(workers) for generation, workers in ranks.items()}
    full, span = measured["workers"], span_of(drill)
    return (soak_ledger.ledger(commits, events, faults, members, full, drill["usual_step_s"], span),
            soak_ledger.seconds_away(commits, members, full, span))


def by_kind(drill):
    """{kind: [(seconds without progress, seconds of slower steps)]}."""
    kinds = {}
    for fault in drill["faults"]:
        kinds.setdefault(fault["fault"], []).append((fault["without_progress_s"], fault["slower_s"]))
    return kinds


def kept_aside(measured, cores):
    """Throughput kept when the processor time of starting processes is left aside."""
    drill = measured["drill"]
    start_s = sum(measured["start_cpu_s"]) / cores
    return drill["throughput_kept"] * drill["seconds"] / (drill["seconds"] - start_s)


def kept_by_ledger(measured, cores, causes):
    """The same from the causes alone, without the noise of the machine."""
    drill = measured["drill"]
    lost_s = sum(seconds for cause, seconds in causes.items() if cause != soak_ledger.OTHER)
    return 1 - max(0.0, lost_s - sum(measured["start_cpu_s"]) / cores) / drill["seconds"]


def is_sound(measured):
    drill = measured["drill"]
    return drill["same_hash"] is True and drill["steps_lost"] == 0 and ": ok." in measured["audit"]


def kinds_table(drill):
    lines = ["| fault | times | without progress: mean | worst | slower steps: mean |", "| --- | --- | --- | --- | --- |"]
    for kind, costs in sorted(by_kind(drill).items()):
        stops, slower = [c[0] for c in costs], [c[1] for c in costs]
        lines.append(f"| {kind} | {len(costs)} | {sum(stops) / len(stops):.2f} s | {max(stops):.2f} s | {sum(slower) / len(slower):+.2f} s |")
    return lines


def causes_table(causes, seconds):
    lines = ["| what ate the rest | seconds | of the time |", "| --- | --- | --- |"]
    for cause, lost in sorted(causes.items(), key=lambda item: -item[1]):
        lines.append(f"| {cause} | {lost:+.1f} | {100 * lost / seconds:+.2f} % |")
    total = sum(causes.values())
    return lines + [f"| together | {total:+.1f} | {100 * total / seconds:+.2f} % |"]


def equally_often(drill):
    """Throughput kept if every kind had come equally often, from the time without progress that each cost on average here."""
    kinds = by_kind(drill)
    if not kinds:
        return 1.0
    mean = sum(sum(stop for stop, _ in costs) / len(costs) for costs in kinds.values()) / len(kinds)
    return 1 - mean * len(drill["faults"]) / drill["seconds"]


def verdict(measured, cores, causes):
    drill, aside, by_ledger = measured["drill"], kept_aside(measured, cores), kept_by_ledger(measured, cores, causes)
    starts = measured["start_cpu_s"]
    bound = f"95 %: {'met' if min(aside, by_ledger) >= 0.95 else 'NOT met'}"
    hashes = f"equal ({drill['state_hash']})" if drill["same_hash"] else f"NOT EQUAL {drill['hash_problem']}"
    return ["| | | bound |", "| --- | --- | --- |",
            f"| throughput kept | {100 * drill['throughput_kept']:.1f} % | |",
            f"| the same, processor time of started processes aside ({len(starts)} starts, {sum(starts):.2f} s) | {100 * aside:.1f} % | "
            f"{bound} |",
            f"| the same by the ledger of causes, without the machine's noise | {100 * by_ledger:.1f} % | {bound} |",
            f"| by time without progress alone, had all kinds come equally often | {100 * equally_often(drill):.1f} % | |",
            f"| committed steps lost | {drill['steps_lost']} | 0 |",
            f"| state hash at the end | {hashes} | equal |",
            f"| audit | {measured['audit']} | ok |"]


def markdown(head, measured, cores):
    drill = measured["drill"]
    causes, away_s = causes_of(measured)
    seconds = drill["seconds"]
    lines = ["# Soak", "",
             f"`{head['command']}`, {head['date']}, {head['machine']}. {len(drill['faults'])} faults in {seconds / 60:.1f} minutes, one "
             f"every {seconds / max(1, len(drill['faults'])):.1f} s, seed {head['seed']}, drawn from {head['mix']}; freeze, cut and slow "
             f"last {head['hold']}. {measured['workers']} workers of one thread; an undisturbed step takes {drill['usual_step_s']:.3f} s "
             f"({drill['usual_tokens_per_s']:,.0f} tokens/s).", "", *verdict(measured, cores, causes), "", textwrap.fill(HOW.strip().format(cores=cores), 125), "",
             *kinds_table(drill), "",
             "Without progress: between the last step that was committed before and the beginning of the first after it. Slower: by how "
             "much the steps until the next fault took longer than undisturbed ones, fewer workers and starting processes included.",
             "", *causes_table(causes, seconds), "",
             f"Workers that were away: {away_s:.0f} of {seconds * measured['workers']:.0f} worker-seconds "
             f"({100 * away_s / seconds / measured['workers']:.1f} %)."]
    undisturbed, disturbed = (100 * part for part in measured["others"])
    lines += ["", f"Other programs used {undisturbed:.1f} % of the processors during the undisturbed run and {disturbed:.1f} % during the "
              "other: where these differ, so does the throughput, and no fault is to blame."]
    if drill["skipped"]:
        lines += ["", f"Left out by the drill: {len(drill['skipped'])}, such as: {drill['skipped'][0]['reason']}."]
    return "\n".join(lines) + "\n"
