"""The soak's report: what was lost to which fault, where the time went, and whether the bits are equal."""
import datetime
import textwrap

import soak_ledger

HOW = """
Two jobs that differ in nothing took turns on this machine in blocks of {block} minutes, by pause and resume: one was left alone,
the other disturbed, both on workers that consented to drills (so both check every byte on the ring). Throughput kept is the
steps that the disturbed job committed in its blocks, from the beginning of each drill until all workers took part again, over
those that would have been committed in as much time at the rate of the undisturbed block just before each. The four workers
share {cores} cores, so while one is away the others take over its share of the cores: what is lost here is what finding out,
forming anew and starting processes cost, and not the node that is missing. On nodes of their own the missing ones would cost as
much again as is said under "workers that were away". A worker that is started again uses processor time before it takes part,
here at the cost of the others: that is measured for each, and the second line of throughput kept leaves it aside, as if it had
come from a spare core. What the machine did in one block and not in the other is noise, and has a line of its own among the
causes; the third line of throughput kept leaves it out, too. The bound is met when both the second and the third line are above
it."""


def seconds_of(time_text):
    return datetime.datetime.fromisoformat(time_text.replace("Z", "+00:00")).timestamp()


def commits_of(points):
    return [{"at": seconds_of(p["time"]), "step": p["step"], "step_s": p["step_s"], "generation": p["generation"]} for p in points]


def faults_of(drill):
    return [{"at": drill["begin_s"] + f["at_s"], "kind": f["fault"], "held_s": f["held_s"]} for f in drill["faults"]]


def all_faults(measured):
    return [fault for turn in measured["turns"] for fault in turn["drill"]["faults"]]


def disturbed_s(measured):
    return sum(end - begin for begin, end in (turn["drill"]["span"] for turn in measured["turns"]))


def rates_of(measured):
    """[(undisturbed, disturbed)] of each turn, in steps per second."""
    def rate(commits, span):
        return sum(span[0] < commit["at"] <= span[1] for commit in commits) / (span[1] - span[0])

    alone, disturbed = (soak_ledger.settled(commits_of(measured[key])) for key in ("undisturbed_metrics", "metrics"))
    return [(rate(alone, turn["undisturbed"]), rate(disturbed, turn["drill"]["span"])) for turn in measured["turns"]]


def kept(measured, spared_s=0.0):
    """Throughput kept; `spared_s` of the disturbed blocks are not counted."""
    spans = [turn["drill"]["span"] for turn in measured["turns"]]
    rates = rates_of(measured)
    done = sum(disturbed * (end - begin) for (_, disturbed), (begin, end) in zip(rates, spans))
    usual = sum(alone * (end - begin) for (alone, _), (begin, end) in zip(rates, spans))
    return done / (usual * (1 - spared_s / disturbed_s(measured)))


def causes_of(measured):
    """({cause: seconds}, seconds that workers were away)."""
    alone, commits = commits_of(measured["undisturbed_metrics"]), commits_of(measured["metrics"])
    events = [{"at": seconds_of(e["time"]), "kind": e["kind"]} for e in measured["events"]]
    ranks = {}
    for row in measured["rows"]:
        ranks.setdefault(row["generation"], set()).add(row["worker"])
    members = {generation: len(workers) for generation, workers in ranks.items()}
    causes, away_s = dict.fromkeys(soak_ledger.CAUSES, 0.0), 0.0
    for turn in measured["turns"]:
        span = turn["drill"]["span"]
        usual = soak_ledger.usual(alone, turn["undisturbed"])
        for cause, seconds in soak_ledger.ledger(commits, events, faults_of(turn["drill"]), members, measured["workers"], usual, span).items():
            causes[cause] += seconds
        away_s += soak_ledger.seconds_away(commits, members, measured["workers"], span)
    return causes, away_s


def by_kind(measured):
    """{kind: [(seconds without progress, seconds of slower steps)]}."""
    kinds = {}
    for fault in all_faults(measured):
        kinds.setdefault(fault["fault"], []).append((fault["without_progress_s"], fault["slower_s"]))
    return kinds


def start_s(measured, cores):
    return sum(measured["start_cpu_s"]) / cores


def kept_by_ledger(measured, cores, causes):
    """Throughput kept from the causes alone, without the noise of the machine and the starting processes."""
    lost_s = sum(seconds for cause, seconds in causes.items() if cause != soak_ledger.OTHER)
    return 1 - max(0.0, lost_s - start_s(measured, cores)) / disturbed_s(measured)


def steps_lost(measured):
    return sum(turn["drill"]["steps_lost"] for turn in measured["turns"])


def same_bits(measured):
    alone, disturbed = measured["hashes"]
    return bool(alone) and alone == disturbed


def is_sound(measured):
    return same_bits(measured) and steps_lost(measured) == 0 and ": ok." in measured["audit"]


def kinds_table(measured):
    lines = ["| fault | times | without progress: mean | worst | slower steps: mean |", "| --- | --- | --- | --- | --- |"]
    for kind, costs in sorted(by_kind(measured).items()):
        stops, slower = [c[0] for c in costs], [c[1] for c in costs]
        lines.append(f"| {kind} | {len(costs)} | {sum(stops) / len(stops):.2f} s | {max(stops):.2f} s | {sum(slower) / len(slower):+.2f} s |")
    return lines


def causes_table(causes, seconds):
    lines = ["| what ate the rest | seconds | of the time |", "| --- | --- | --- |"]
    for cause, lost in sorted(causes.items(), key=lambda item: -item[1]):
        lines.append(f"| {cause} | {lost:+.1f} | {100 * lost / seconds:+.2f} % |")
    total = sum(causes.values())
    return lines + [f"| together | {total:+.1f} | {100 * total / seconds:+.2f} % |"]


def turns_table(measured):
    lines = ["| block | faults | undisturbed, steps/s | disturbed, steps/s | kept |", "| --- | --- | --- | --- | --- |"]
    for i, (turn, (alone, disturbed)) in enumerate(zip(measured["turns"], rates_of(measured)), 1):
        lines.append(f"| {i} | {len(turn['drill']['faults'])} | {alone:.2f} | {disturbed:.2f} | {100 * disturbed / alone:.1f} % |")
    return lines


def equally_often(measured):
    """Throughput kept if every kind had come equally often, from the time without progress that each cost on average here."""
    kinds = by_kind(measured)
    if not kinds:
        return 1.0
    mean = sum(sum(stop for stop, _ in costs) / len(costs) for costs in kinds.values()) / len(kinds)
    return 1 - mean * len(all_faults(measured)) / disturbed_s(measured)


def verdict(measured, cores, causes):
    aside, by_ledger = kept(measured, start_s(measured, cores)), kept_by_ledger(measured, cores, causes)
    bound = f"95 %: {'met' if min(aside, by_ledger) >= 0.95 else 'NOT met'}"
    starts, (alone, disturbed) = measured["start_cpu_s"], measured["hashes"]
    hashes = f"equal ({alone})" if same_bits(measured) else f"NOT EQUAL: {alone or 'none'} undisturbed, {disturbed or 'none'} disturbed"
    return ["| | | bound |", "| --- | --- | --- |",
            f"| throughput kept | {100 * kept(measured):.1f} % | |",
            f"| the same, processor time of started processes aside ({len(starts)} starts, {sum(starts):.2f} s) | {100 * aside:.1f} % | "
            f"{bound} |",
            f"| the same by the ledger of causes, without the machine's noise | {100 * by_ledger:.1f} % | {bound} |",
            f"| by time without progress alone, had all kinds come equally often | {100 * equally_often(measured):.1f} % | |",
            f"| committed steps lost | {steps_lost(measured)} | 0 |",
            f"| state hash at the end | {hashes} | equal |",
            f"| audit | {measured['audit']} | ok |"]


def markdown(head, measured, cores):
    causes, away_s = causes_of(measured)
    seconds, faults = disturbed_s(measured), all_faults(measured)
    usual_s = sum(1 / alone for alone, _ in rates_of(measured)) / len(measured["turns"])
    lines = ["# Soak", "",
             f"`{head['command']}`, {head['date']}, {head['machine']}. {len(faults)} faults in {seconds / 60:.1f} minutes, one "
             f"every {seconds / max(1, len(faults)):.1f} s, seed {head['seed']}, drawn from {head['mix']}; freeze, cut and slow "
             f"last {head['hold']}. {measured['workers']} workers of one thread; an undisturbed step takes {usual_s:.3f} s.", "",
             *verdict(measured, cores, causes), "",
             textwrap.fill(HOW.strip().format(cores=cores, block=head["block"]), 125), "",
             *kinds_table(measured), "",
             "Without progress: between the last step that was committed before and the beginning of the first after it. Slower: by how "
             "much the steps until the next fault took longer than undisturbed ones, fewer workers and starting processes included.",
             "", *causes_table(causes, seconds), "",
             f"Workers that were away: {away_s:.0f} of {seconds * measured['workers']:.0f} worker-seconds "
             f"({100 * away_s / seconds / measured['workers']:.1f} %).", "",
             *turns_table(measured)]
    undisturbed, disturbed = (100 * part for part in measured["others"])
    lines += ["", f"Other programs used {undisturbed:.1f} % of the processors during the undisturbed blocks and {disturbed:.1f} % during "
              "the others: where these differ, so does the throughput, and no fault is to blame."]
    skipped = [skip for turn in measured["turns"] for skip in turn["drill"]["skipped"]]
    if skipped:
        lines += ["", f"Left out by the drills: {len(skipped)}, such as: {skipped[0]['reason']}."]
    return "\n".join(lines) + "\n"
