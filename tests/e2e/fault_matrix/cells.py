"""The cells of the fault matrix: a fault, the moment that it happens at, and the worker that it happens to.

Promises: every combination is either a cell that runs or has a reason why it makes no sense; nothing is left out silently."""
import dataclasses
import itertools

FAULTS = {
    "kill": "kill -9 of the whole worker, supervisor and training process: nobody reports it",
    "stop": "SIGSTOP to the whole worker",
    "reset": "every TCP connection of the worker is reset (RST), those of the ring and those to the service",
    "cut": "nothing reaches the worker and nothing leaves it; its link stays up, and no reset or ICMP tells of it",
    "one_way": "what the worker sends to anybody vanishes, what is sent to it arrives",
    "one_way_ring": "what the worker sends to its successor in the ring vanishes, all else arrives",
    "rift": "as the one before, and it is never mended",
    "slow_link": "the worker's link falls to 10 Mbit/s, both ways",
    "corrupt": "one byte of what the worker sends next is altered on the way, with a TCP checksum that fits",
    "full_disk": "the disk of the service is full, and with it that of the checkpoints, which it keeps",
    "full_store": "the disk of the checkpoint folder that the workers share is full",
    "service": "kill -9 of the service, which is started again afterwards",
    "pair_kill": "kill -9 of one of two workers of a node, which share memory; the other two workers are on a second node",
    "pair_stop": "the same, SIGSTOP",
    "node_kill": "kill -9 of both workers of such a node",
    "node_cut": "such a node is cut off, as in the silent cut",
}
OF_PAIRS = ("pair_kill", "pair_stop", "node_kill", "node_cut")
OF_A_LOSS = ("kill", "stop", "reset", "cut", "node_kill")
MOMENTS = {
    "idle": "no job: the fault comes, and right after it a job is submitted",
    "compute": "in the middle of a step's computation",
    "reduce_scatter": "between two chunks of the gradients' all-reduce that are added up",
    "all_gather": "between two chunks of the gradients' all-reduce that are passed on as they are",
    "commit": "the step is applied, and it is not yet known whether by all",
    "state_copy": "a fourth worker joins; between two pieces of the state that it is given",
    "checkpoint_write": "between a checkpoint's shard and its manifest, while training goes on",
    "rendezvous": "a fourth worker joins; the ring of the new generation is about to be formed",
}
OF_DIVIDED_STATES = {
    "norm": "the worker has the gradient of what it owns, and has not told its part of the norm",
    "share": "the step is applied; between two pieces of the parameters that workers take from their owners",
    "gather": "parameters divided: between two pieces of those that a pass needs next",
    "restore": "a fourth worker has joined, and trains; between two pieces of what it is to own",
}
ROLES = {
    "rank0": "rank 0, which reports to the service and writes checkpoints",
    "neighbour": "rank 1, the successor of rank 0",
    "joiner": "the worker that joined last; in the moments of a step: in its first step",
    "donor": "rank 2, the last that holds the state before the joiner: it gives it its copy",
}
WITH_A_JOIN = ("state_copy", "rendezvous", "restore")


@dataclasses.dataclass(frozen=True)
class Cell:
    fault: str
    moment: str
    role: str

    def __str__(self):
        return f"{self.fault}:{self.moment}:{self.role}"

    @property
    def rank(self):
        return {"rank0": 0, "neighbour": 1, "joiner": 3, "donor": 2}[self.role]

    @property
    def joins(self):
        return self.moment in WITH_A_JOIN or self.role == "joiner"


def why_not(cell):
    """Why the cell makes no sense, or None."""
    if cell.role == "donor" and cell.moment not in WITH_A_JOIN:
        return "only where a state is copied is there a donor"
    if cell.moment == "idle" and cell.role != "rank0":
        return "without a job nobody has a rank; one worker stands for all"
    if cell.fault == "corrupt" and cell.moment == "idle":
        return "nothing but heartbeats is on the wire"
    if cell.fault == "corrupt" and cell.moment == "checkpoint_write" and cell.role != "rank0":
        return "only rank 0 sends a checkpoint's bytes; what another sends then is a step's, as in compute"
    if cell.fault == "rift" and (cell.moment, cell.role) not in (("compute", "rank0"), ("compute", "neighbour"), ("rendezvous", "joiner")):
        return "where a ring cannot be formed it does not matter when it broke; see compute, and rendezvous for a new worker"
    if cell.fault == "full_store" and cell.moment != "checkpoint_write":
        return "nothing is written to that folder but checkpoints"
    if cell.fault in OF_PAIRS and cell.moment == "idle":
        return "without a job nobody shares memory"
    if cell.fault in ("node_kill", "node_cut") and cell.role in ("neighbour", "joiner"):
        return "it happens to both workers of a node: see rank 0 and the donor"
    if cell.fault in ("node_kill", "node_cut") and cell.moment in WITH_A_JOIN and cell.role == "donor":
        return "the donor's node is the joiner's, which is not a worker yet"
    if cell.fault in ("full_disk", "full_store", "service") and cell.role != "rank0":
        return "there is one service and one disk of each kind, and the same happens to all: see rank 0"
    return None


def every_combination(moments=tuple(MOMENTS)):
    return [Cell(*parts) for parts in itertools.product(FAULTS, moments, ROLES)]


def cells_that_run(moments=tuple(MOMENTS)):
    return [cell for cell in every_combination(moments) if why_not(cell) is None]


def cells_of_divided_states(shard):
    """Those in which a worker is lost. Parameters that are divided, too, are not shared after a step."""
    other = "share" if shard == "parameters" else "gather"
    moments = [moment for moment in (*MOMENTS, *OF_DIVIDED_STATES) if moment != other]
    return [cell for cell in cells_that_run(moments) if cell.fault in OF_A_LOSS]


def matching(pattern):
    """The cells that "kill:commit:rank0", "kill" or "*:commit" means; ValueError names what is not known."""
    parts = pattern.split(":")
    known = (FAULTS, {**MOMENTS, **OF_DIVIDED_STATES}, ROLES)
    if len(parts) > len(known):
        raise ValueError(f"'{pattern}' has more parts than FAULT:MOMENT:ROLE")
    for part, names in zip(parts, known):
        if part not in ("", "*") and part not in names:
            raise ValueError(f"'{part}' in '{pattern}' is not one of {', '.join(names)}")
    parts += ["*"] * (len(known) - len(parts))
    wanted = [cell for cell in every_combination((*MOMENTS, *OF_DIVIDED_STATES))
              if all(part in ("", "*", value) for part, value in zip(parts, dataclasses.astuple(cell)))]
    running = [cell for cell in wanted if why_not(cell) is None]
    if not running:
        raise ValueError(f"'{pattern}' makes no sense: {why_not(wanted[0])}")
    return running
