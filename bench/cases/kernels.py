"""The ops that memory limits, beside a plain copy of as many bytes on this machine."""
import testbed

TITLE = "Ops that memory limits: bytes a second, beside a plain copy; GB/s"
NOTE = ("Bytes: those that an op must read and write once (listed in bench/kernels/kernels.cpp), 30,142,848 elements unless a shape is named. "
        "Floor: memcpy by as many threads, read and written bytes counted, as many of them in all. Ratio: the op's share of that "
        "copy's rate. The C library's copy of this size goes past the cache; what writes into memory through the cache reads it "
        "first, so its share cannot reach 1. 2048 x 384 fits the cache of many machines.")


def measure(options):
    seen = {}  # (type, threads, op, shape) -> its lines
    for _ in range(1 if options.quick else options.repeat):
        for dtype in ("float32", "bfloat16"):
            for threads in (1,) if options.quick else (1, 2):
                text = testbed.output_of([f"{testbed.BIN}/bench_kernels", "--dtype", dtype, "--threads", threads])
                for line in testbed.json_lines(text):
                    seen.setdefault((dtype, threads, line["op"], line["shape"]), []).append(line)
    rows = []
    for (dtype, threads, op, shape), lines in seen.items():
        where = f" of {shape}" if " x " in shape else ""
        case = f"{dtype}, {threads} thread{'s' if threads > 1 else ''}: {op}{where}"
        each = testbed.row(case, "GB/s", testbed.median([line["gigabytes_per_s"] for line in lines]),
                           floor=testbed.median([line["copy_gigabytes_per_s"] for line in lines]), higher_is_better=True, note=NOTE)
        each["ratio"] = testbed.median([line["share_of_copy"] for line in lines])
        rows.append(each)
    return rows
