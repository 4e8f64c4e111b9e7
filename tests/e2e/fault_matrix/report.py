"""The matrix for people: a page that says what it means, then what was measured, the bounds it is judged by, and why some cells are
empty."""
import datetime
import os
import platform
import statistics
import subprocess

import harness
from fault_matrix import cells
from fault_matrix import faults
from fault_matrix import sections

LEASE_S = 3
WITHIN_S = {"kill": 1, "stop": LEASE_S + 1, "cut": LEASE_S + 1, "pair_kill": 1, "node_kill": 1, "pair_stop": LEASE_S + 1, "node_cut": LEASE_S + 1}  # to the next committed step, beyond one step's compute
FAULT_NAMES = {"kill": "kill -9", "stop": "SIGSTOP", "reset": "RST", "cut": "silent cut", "one_way": "one-way cut",
               "one_way_ring": "one-way cut, ring", "slow_link": "10 Mbit/s", "corrupt": "corrupted byte",
               "full_disk": "full disk, service", "full_store": "full disk, checkpoints", "service": "service killed", "pair_kill": "kill -9, one of a node's two",
               "pair_stop": "SIGSTOP, one of a node's two", "node_kill": "kill -9, a node's two", "node_cut": "silent cut, a node's two"}


def name(part):
    return FAULT_NAMES.get(part, part.replace("_", "-" if part in ("reduce_scatter", "all_gather") else " "))


def seconds(value):
    return "–" if value is None else f"{value:.2f}"


def verdict(outcome):
    if not outcome.good():
        return "**NO**"
    bound = WITHIN_S.get(outcome.cell.fault)
    if bound is None or outcome.cell.moment == "idle":
        return "yes"
    return "yes" if outcome.pause_s < bound else "**late**"


def line(outcome):
    """For the terminal."""
    if outcome.failure:
        return f"{outcome.cell}: {outcome.failure}"
    text = (f"{outcome.cell}: detected {seconds(outcome.detect_s)} s, next step {seconds(outcome.pause_s)} s, "
            f"lost {outcome.steps_lost}, ledger {outcome.ledger}, bits {outcome.bits}, checkpoints {outcome.checkpoints}")
    return text if verdict(outcome) == "yes" else f"{text}: {verdict(outcome).strip('*')}"


def command_output(*arguments):
    try:
        return subprocess.run(arguments, capture_output=True, text=True, check=False, cwd=harness.ROOT).stdout.strip()
    except OSError:
        return ""


def machine():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        model = next((row.split(":", 1)[1].strip() for row in file if row.startswith("model name")), platform.machine())
    memory_gb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{os.cpu_count()} cores of {model}, {memory_gb:.0f} GiB, Linux {platform.release()}"


def front(outcomes, planned):
    """The page in front: for whom, what it means, what it does not show."""
    good = sum(verdict(outcome) == "yes" for outcome in outcomes)
    early = [f"**The run was ended early: {len(outcomes)} of {planned} cells.**", ""] if len(outcomes) < planned else []
    return [
        "# Faults, measured", "", *early,
        "For whoever wants to know what a broken node costs before a run of days is trusted to this. Every kind of fault was brought upon",
        "every kind of worker at every moment of a step, with real processes; a cell is one such fault in one run.", "",
        f"**{good} of {len(outcomes)} cells keep every promise and bound**: no committed step lost, every microbatch used once, the bits of the",
        "undisturbed run at the end, every checkpoint whole. What a fault costs is time:", "",
        *summary(outcomes),
        "Why some cost more. A process that dies and a connection that is reset show at once, by their sockets. A worker that is frozen or cut",
        "off shows by silence alone: its neighbour has the service ask, and where no neighbour waits for it yet its lease must end. Where one",
        "direction of one link is lost both ends still answer the service, and only the ring's own patience ends it. A service that dies or",
        "whose disk is full is not waited for: workers train on.", "",
        "**What this does not show.** One machine played all nodes, in network namespaces: no real switch, no power loss (for that see",
        "`tests/storage/power_loss_test.cpp`), no GPU. The model is small, so copying its state takes no time. One fault comes at a time; several,",
        "in any order, are the simulator's ([tests/sim](../tests/sim/README.md)) and the soak's ([SOAK.md](SOAK.md)).", ""]


def summary(outcomes):
    rows = ["| fault | cells | kept | to the next step, median s | longest, s |", "| --- | ---: | ---: | ---: | ---: |"]
    for fault in cells.FAULTS:
        of_fault = [o for o in outcomes if o.cell.fault == fault]
        pauses = [o.pause_s for o in of_fault if o.pause_s is not None and o.cell.moment != "idle"]
        if not of_fault:
            continue
        kept = sum(verdict(o) == "yes" for o in of_fault)
        shown_pauses = [f"{statistics.median(pauses):.2f}", f"{max(pauses):.2f}"] if pauses else ["–", "–"]
        rows.append(f"| {name(fault)} | {len(of_fault)} | {kept} | {' | '.join(shown_pauses)} |")
    return [*rows, "", "Seconds are beyond one undisturbed step, and without the cells in which no job ran yet.", ""]


def head(outcomes, command, took_s, load):
    step_s = sorted(outcome.step_s for outcome in outcomes if outcome.step_s is not None)
    median = f"{step_s[len(step_s) // 2] * 1000:.0f} ms" if step_s else "unknown"
    commit = command_output("git", "rev-parse", "--short", "HEAD") or "unknown"
    return [
        "## How it was measured", "",
        f"Written by `{command}` on {datetime.date.today()}, commit {commit}, in {took_s:.0f} s; {machine()};",
        f"load {load} at the start.", "",
        "A service and four workers (`--threads 1`), each in",
        f"a network namespace of its own, or two in one, on one bridge, all on this machine; a GPT-2 of 120,000 parameters, 40 steps of {median}, a",
        "checkpoint every 10. The worker stands at its fault point while the fault is injected, so each cell hits its moment.", "",
        "- *detected*: from the fault to the first event of it (or line in a worker's log); – where nothing was said.",
        "- *next step*: from the fault to the next committed step, beyond one undisturbed step. Idle: from submission to the first step,",
        "  all of it.",
        "- *kept*: 0 committed steps lost, every microbatch in the ledger once, the bits of the undisturbed run at the end, every",
        "  checkpoint whole; and the bound on the time, where there is one:",
        f"  kill -9 under 1 s; SIGSTOP and silent cut under {LEASE_S + 1} s (the lease of {LEASE_S} s and 1 s).", "",
        "## Every cell", ""]


def lasting(fault):
    heals = faults.KINDS[fault].heal_after_s
    return "" if heals is None else f" ({heals} s long)"


def meanings():
    rows = []
    told = {fault: text + lasting(fault) for fault, text in cells.FAULTS.items()}
    for title, words in (("Faults", told), ("Moments", cells.MOMENTS), ("Who", cells.ROLES)):
        rows += [f"**{title}.** " + "; ".join(f"*{name(key)}*: {text}" for key, text in words.items()) + ".", ""]
    return rows


def table(outcomes):
    rows = ["| fault | moment | who | detected, s | next step, s | steps lost | ledger | bits | checkpoints | kept |",
            "| --- | --- | --- | ---: | ---: | ---: | --- | --- | --- | --- |"]
    for o in outcomes:
        lost = "–" if o.steps_lost is None else o.steps_lost
        brief = [text.split(":")[0] for text in (o.ledger, o.bits, o.checkpoints)]
        columns = [name(o.cell.fault), name(o.cell.moment), name(o.cell.role), seconds(o.detect_s), seconds(o.pause_s), lost, *brief]
        rows.append(f"| {' | '.join(map(str, columns))} | {verdict(o)} |")
    return rows + [""]


def broken(outcomes):
    rows = []
    for o in outcomes:
        if verdict(o) == "yes":
            continue
        wrong = [o.failure, *(text for text in (o.ledger, o.bits, o.checkpoints) if ":" in text)]
        rows.append(f"- `{o.cell}`: " + "; ".join(filter(None, wrong + [f"next step after {seconds(o.pause_s)} s"])))
    return ["## What was not kept", "", *rows, ""] if rows else []


def first_words(outcomes):
    """What was said first, once for each fault and moment."""
    rows, told = ["## What people were told first", ""], set()
    for o in outcomes:
        if o.sign and (o.cell.fault, o.cell.moment) not in told:
            told.add((o.cell.fault, o.cell.moment))
            rows.append(f"- {name(o.cell.fault)}, {name(o.cell.moment)}, {name(o.cell.role)}: {shown(o.sign)}")
    return rows + [""]


def shown(text):
    """Without the folder that a run was made in."""
    return " ".join("…/" + word.split("/", 3)[-1] if "holdfast-e2e-" in word else word for word in text.split())


def empty_cells():
    reasons = {}
    for cell in cells.every_combination():
        why = cells.why_not(cell)
        if why:
            reasons.setdefault(why, []).append(cell)
    rows = ["## Cells that make no sense", ""]
    for why, alike in reasons.items():
        named = sorted({f"{name(cell.fault)} at {name(cell.moment)}" for cell in alike})
        text = ", ".join(named) if len(named) <= 8 else f"{len(alike)} combinations"
        roles = sorted({name(cell.role) for cell in alike})
        rows.append(f"- {why}: {' and '.join(roles)}; {text}.")
    return rows + [""]


def write(path, outcomes, planned, command, took_s, load):
    rows = (front(outcomes, planned) + broken(outcomes) + head(outcomes, command, took_s, load) + table(outcomes)
            + first_words(outcomes) + meanings() + empty_cells())
    others = sections.of_others(path)
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(rows).rstrip() + "\n" + ("\n" + others.rstrip() + "\n" if others else ""))
