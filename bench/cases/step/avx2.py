"""One training step of GPT-2 Tiny where a processor has AVX2 and no AVX-512, beside PyTorch that is kept to the same instructions."""
from cases import step

TITLE = "Training step of GPT-2 Tiny with AVX2 alone, sequences of 512 tokens, one process; tokens/s"
AVX2 = step.Instructions(ours={"HOLDFAST_CPU_ISA": "avx2"},
                         peers={"ATEN_CPU_CAPABILITY": "avx2", "DNNL_MAX_CPU_ISA": "AVX2", "ONEDNN_MAX_CPU_ISA": "AVX2", "OPENBLAS_CORETYPE": "Haswell"})


def measure(options):
    return [step.beside_pytorch(dtype, threads, 4, options.repeat, AVX2) for dtype in ("float32", "bfloat16") for threads in (1, 2)]
