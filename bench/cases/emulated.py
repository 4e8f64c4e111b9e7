"""Two workers over a link of 1 Gbit/s whose devices are as fast as a GPU is: what each gets done beside what it does alone."""
import curve_plot
import link_runs
import testbed

MICROBATCH_MS = 30
BATCH = 16
TITLE = (f"Tiny, {BATCH} x 512 tokens a microbatch in {MICROBATCH_MS} ms (an emulated device), two workers over 1 Gbit/s: efficiency in "
         "percent of a worker alone")
NOTE = (f"The device computes nothing and takes {MICROBATCH_MS} ms a microbatch, about a current GPU's pace (bench/emulated/emulated_ops.h says what else is "
        "emulated as free); data, collectives, steps and the service are real. No peer. Floor: the time alone and each byte at the "
        "rate of one bare TCP stream, nothing hidden behind compute. One pass, whatever --repeat.")
WIRES = ("int32", "int16", "bfloat16", "int8")
WORKER = f"{testbed.BIN}/bench_emulated_worker"


def settings(quick):
    """The varied settings, one dictionary a run."""
    all_of_them = [{"accumulation": count, "wire": wire, "overlap": overlap}
                   for count in (8, 1) for wire in (("int16",) if quick else WIRES) for overlap in ("on", "off")]
    for count in (8,) if quick else (8, 1):
        all_of_them += [{"accumulation": count, "wire": wire, "sync_every": every} for every in ((8,) if quick else (8, 16, 32))
                        for wire in (("int16",) if quick else ("int16", "int8"))]
    return all_of_them


def name_of(setting):
    more = f"overlap {setting['overlap']}" if "overlap" in setting else f"sync every {setting['sync_every']} steps"
    return f"{setting['accumulation']} a step, {setting['wire']}, {more}"


def run(**setting):
    return link_runs.run(worker=WORKER, microbatch_ms=MICROBATCH_MS, batch=BATCH, steps=max(8, 2 * setting.get("sync_every", 1)), **setting)


def plot(rows_of):
    """Efficiency against the steps between syncs, a line an accumulation."""
    series = {}
    for setting, value in rows_of:
        if setting["wire"] == "int16" and setting.get("overlap") != "on":
            series.setdefault(f"{setting['accumulation']} a step, int16", []).append((setting.get("sync_every", 1), value))
    curve_plot.write(testbed.plot_path("emulated"), "A fast device over 1 Gbit/s: percent of a worker alone", "steps between syncs",
                     "efficiency, %", series, powers=True, marks=True)


def measure(options):
    alone = {count: run(alone=True, accumulation=count, plain_tcp=count == 1) for count in (1, 8)}
    plain = alone[1]["plain_bytes_per_s"]
    runs, measured, rows = [], [], []
    for setting in settings(options.quick):
        count, every = setting["accumulation"], setting.get("sync_every", 1)
        runs.append(run(**setting))
        measured.append((setting, link_runs.efficiency(alone[count], runs[-1])))
        rows.append(testbed.row(name_of(setting), "%", measured[-1][1],
                                floor=link_runs.without_hiding(alone[count], setting["wire"], plain, every), higher_is_better=True))
    note = NOTE + f" Plain TCP: {plain / 1e6:.0f} MB/s." + link_runs.faults_in([*alone.values(), *runs])
    for each in rows:
        each["note"] = note
    if options.write_plots:
        plot(measured)
    return rows
