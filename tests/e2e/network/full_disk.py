"""A disk that is full, and one that has room again."""
import os


def fill(folder):
    """Until not a byte more fits on the disk that the folder is on."""
    with open(os.path.join(folder, "ballast"), "wb", buffering=0) as ballast:
        piece = b"\0" * (1 << 20)
        while piece:
            try:
                ballast.write(piece)
            except OSError:
                piece = piece[:len(piece) // 2]


def free(folder):
    os.unlink(os.path.join(folder, "ballast"))
