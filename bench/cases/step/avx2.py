"""One training step of GPT-2 Tiny where a processor has AVX2 and no AVX-512, beside PyTorch that is kept to the same instructions."""
import peer_python
import testbed
from cases import step

TITLE = "Training step of GPT-2 Tiny with AVX2 alone, sequences of 512 tokens, one process; tokens/s"
CORES = ("Haswell", "Zen")  # OpenBLAS's loops without AVX-512


def measure(options):
    core = testbed.PEER.quickest_of(CORES) if testbed.PEER.setups else CORES[0]
    avx2 = step.Instructions(ours={"HOLDFAST_CPU_ISA": "avx2"},
                             peers={"ATEN_CPU_CAPABILITY": "avx2", "DNNL_MAX_CPU_ISA": "AVX2", "ONEDNN_MAX_CPU_ISA": "AVX2", peer_python.CORE: core})
    return [step.beside_pytorch(dtype, threads, 4, options.repeat, avx2) for dtype in ("float32", "bfloat16") for threads in (1, 2)]
