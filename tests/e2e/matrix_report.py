def seconds(value):
    return "–" if value is None else f"{value:.2f}"


def line(outcome):
    return (f"{outcome.cell}: detected {seconds(outcome.detect_s)} s, next step {seconds(outcome.pause_s)} s, step {seconds(outcome.step_s)}, lost "
            f"{outcome.steps_lost}, ledger {outcome.ledger}, bits {outcome.bits}, checkpoints {outcome.checkpoints} {outcome.failure} | {outcome.sign[:150]}")
def write(*a): pass
