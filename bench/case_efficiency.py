"""Two real workers that train Tiny over a link of 1 Gbit/s: what each gets done beside what it does alone."""
import curve_plot
import link_runs
import testbed

TITLE = "Tiny, 4 x 512 tokens a microbatch, two workers of a thread each over 1 Gbit/s: efficiency in percent of a worker alone"
NOTE = ("A worker alone does as many microbatches a step, while the other one does the same in a job of its own, so what two processes cost "
        "each other on one machine is in both numbers. Peer: no program, but what the documents predict that this project began "
        "with: 50.3 M parameters sent twice at 100 MB/s, 1 s of compute a microbatch. Floor: the time alone and each byte at the rate "
        "of one bare TCP stream, nothing hidden behind compute. Overlap as jobs have it by default. One pass, whatever --repeat.")
LABEL = "microbatches a worker and step"
# wire type -> accumulations. A microbatch takes seconds on one core: this many is what fits a quarter of an hour.
SETTINGS = {"int32": (1, 2, 4, 8, 16), "int16": (1, 2, 4, 8), "bfloat16": (1, 4), "int8": (1, 4)}
QUICK = {"int32": (1, 4), "int16": (1, 4)}
STEPS = {1: 3, 2: 2, 4: 2, 8: 1, 16: 1}  # measured, after one that warms up


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
    alone, runs, measured, rows = {}, [], {}, []
    for count in sorted({count for counts in settings.values() for count in counts}):
        alone[count] = link_runs.run(alone=True, accumulation=count, steps=STEPS[count], plain_tcp=count == 1)
    plain = alone[1]["plain_bytes_per_s"]
    for wire, counts in settings.items():
        for count in counts:
            runs.append(link_runs.run(accumulation=count, wire=wire, steps=STEPS[count]))
            measured[wire, count] = link_runs.efficiency(alone[count], runs[-1])
            rows.append(testbed.row(f"{count} a step, {wire}", "%", measured[wire, count], predicted(count, wire),
                                    link_runs.without_hiding(alone[count], wire, plain), higher_is_better=True))
    note = NOTE + f" Plain TCP: {plain / 1e6:.0f} MB/s." + link_runs.faults_in([*alone.values(), *runs])
    for each in rows:
        each["note"] = note
    if options.write_plots:
        plot(settings, measured)
    return rows
