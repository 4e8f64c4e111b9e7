"""Token files that are larger than those of harness.write_training_files."""
import os


def append_tokens(path, size):
    """Random ids below 256, so many bytes of them."""
    ids = bytearray(size)
    ids[0::2] = os.urandom(size // 2)
    with open(path, "ab") as file:
        file.write(ids)
