"""Two real workers that train Tiny over a link of 1 Gbit/s: what each gets done beside what it does alone."""
import curve_plot
import link_runs
import testbed

TITLE = "Tiny, 16 x 512 tokens a microbatch, two workers of a thread each over 1 Gbit/s: efficiency in percent of a worker alone"
NOTE = ("The documents' recommended batch. A worker alone does as many microbatches a step, while the other one does the same in a job of "
        "its own, so what two processes cost each other on one machine is in both numbers; it is measured before and after, as the speed "
        "of a machine drifts. Peer: no program, but what the documents predict that this project began with: 50.3 M parameters sent twice "
        "at 100 MB/s, 1 s of compute a microbatch. Floor: the time alone and each byte at the rate of one bare TCP stream, nothing hidden "
        "behind compute. Overlap as jobs have it by default. One pass, whatever --repeat. Not waiting: the share of the same steps in which "
        "the train thread did not wait for the other worker; no drift of the machine is in it, nor what the ring's thread costs a core.")
LABEL = "microbatches a worker and step"
# wire type -> accumulations. A microbatch takes 4 to 14 s on one core: one of 16 a step takes minutes.
SETTINGS = {"int32": (1, 2, 4, 8, 16), "int16": (1, 2, 4, 8, 16), "float32": (1,), "bfloat16": (1,), "float16": (1,), "int8": (1,)}
QUICK = {"int32": (1, 2, 4, 8), "int16": (1, 2, 4, 8)}
STEPS = {1: 3, 2: 3, 4: 2, 8: 2}  # measured, after one that warms up; elsewhere one
BATCH = 16


def predicted(accumulation, wire):
    """The documents' own formula; they have no 8-bit wire."""
    element_bytes = {"int32": 4, "int16": 2, "bfloat16": 2}.get(wire)
    return element_bytes and 100 * accumulation / (accumulation + 2 * 50.3e6 * element_bytes / 100e6)


def plot(settings, measured):
    series = {f"{wire}, measured": [(count, measured[wire, count]) for count in counts] for wire, counts in settings.items()}
    for wire, name in (("int32", "predicted, 4 bytes"), ("int16", "predicted, 2 bytes")):
        series[name] = [(count, predicted(count, wire)) for count in settings[wire]]
    curve_plot.write(testbed.plot_path("efficiency"), "Two workers over 1 Gbit/s: percent of a worker alone", LABEL,
                     "efficiency, %", series, powers=True, marks=True)


def measure(options):
    settings = QUICK if options.quick else SETTINGS
    runs, measured, rows, plain = [], {}, [], None
    for count in sorted({count for counts in settings.values() for count in counts}):
        wires = [wire for wire, counts in settings.items() if count in counts]

        def run(**changes):
            runs.append(link_runs.run(batch=BATCH, accumulation=count, steps=STEPS.get(count, 1), **changes))
            return runs[-1]

        before = run(alone=True, plain_tcp=plain is None)
        plain = plain or before["plain_bytes_per_s"]
        together = {wire: run(wire=wire) for wire in wires}
        beside = link_runs.between(before, run(alone=True))
        for wire in wires:
            measured[wire, count] = link_runs.efficiency(beside, together[wire])
            rows.append(testbed.row(f"{count} a step, {wire}", "%", measured[wire, count], predicted(count, wire),
                                    link_runs.without_hiding(beside, wire, plain), higher_is_better=True))
            waited = together[wire]["communication_s"] / together[wire]["step_s"]
            rows.append(testbed.row(f"{count} a step, {wire}: not waiting", "%", 100 * (1 - waited), higher_is_better=True))
    note = NOTE + f" Plain TCP: {plain / 1e6:.0f} MB/s." + link_runs.faults_in(runs)
    for each in rows:
        each["note"] = note
    if options.write_plots:
        plot(settings, measured)
    return rows
