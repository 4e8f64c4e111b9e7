"""Wire types: their fields in a job's spec, and the bytes that a reduction sends in each."""
ELEMENT_BYTES = {"int32": 4, "int16": 2, "float32": 4, "bfloat16": 2, "float16": 2, "int8": 1 + 4 / 512}  # int8: a scale per 512


def reduction_of(wire):
    return "exact" if wire in ("int32", "int16") else "float"


def bytes_each_way(wire, elements, world):
    """The bytes that every rank sends, and receives, to sum `elements` over a ring of `world` ranks.

    Reduce-scatter and all-gather, (N-1)/N of the buffer each; int8 goes to the owners of its segments hop by hop instead of being
    summed on the way, which is (N-1)/2 of it."""
    first = (world - 1) / 2 if wire == "int8" else (world - 1) / world
    return ELEMENT_BYTES[wire] * elements * (first + (world - 1) / world)
