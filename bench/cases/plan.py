"""How near `holdfast plan` comes to the steps of two workers over links of 1 Gbit/s."""
import os

import testbed

TITLE = "Steps of two workers over links of 1 Gbit/s, Tiny: measured (Holdfast) and predicted by `holdfast plan` (beside); seconds"
NOTE = ("Ratio: predicted over measured. The prediction is given the microbatch, the optimizer and the link as measured in this run, "
        "each by itself. Floor: the step's computing alone. Steps are medians, without each job's first three.")
OFF = 0.15  # from here on a prediction is called off


def measure(options):
    script = os.path.join(testbed.ROOT, "bench", "plan_over_link.py")
    runs = [testbed.json_lines(testbed.output_of([script], timeout_s=3600)) for _ in range(options.repeat)]
    given = [run[0] for run in runs]
    told = "; ".join(f"microbatch {g['microbatch_s']:.3f} s, optimizer {g['update_s']:.3f} s, link {g['link_mb_s']:.0f} MB/s, round trip "
                     f"{g['rtt_ms']:.2f} ms" for g in given)
    rows = []
    for settings in zip(*(run[1:] for run in runs)):
        name = f"{settings[0]['wire']}, x{settings[0]['accumulation']}, overlap {settings[0]['overlap']}"
        measured, predicted, compute = (testbed.median([s[key] for s in settings]) for key in ("measured_s", "predicted_s", "compute_s"))
        rows.append((testbed.row(name, "s", measured, reference=predicted, floor=compute), predicted / measured - 1))
    off = [f"{row['case']}: {difference:+.0%}" for row, difference in rows if abs(difference) > OFF]
    said = f"Off by more than {OFF:.0%}: {'; '.join(off)}." if off else f"None is off by more than {OFF:.0%}."
    return [{**row, "note": f"{NOTE} Given: {told}. {said}"} for row, _ in rows]
