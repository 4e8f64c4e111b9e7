"""GPT-2 in plain PyTorch, as a project of one's own would write it: pre-LayerNorm, GELU (tanh), learned positions, tied head, and
dropout where GPT-2 and nanoGPT have it; without biases, or with a head of its own, if asked."""
import functools
import math

import torch
import torch.nn.functional as F
from torch import nn

# name: (layers, channels, heads, context)
SIZES = {"tiny": (6, 384, 6, 512), "small": (12, 768, 12, 1024), "medium": (24, 1024, 16, 1024)}


class LayerNorm(nn.Module):
    """nn.LayerNorm, whose bias can be left out only from PyTorch 2.1 on."""

    def __init__(self, channels, bias):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(channels)), nn.Parameter(torch.zeros(channels)) if bias else None

    def forward(self, x):
        return F.layer_norm(x, self.weight.shape, self.weight, self.bias)


@functools.cache
def later(length, dtype, device):
    """(1, T, T): -inf where a token must not look, else 0."""
    return torch.full((1, length, length), float("-inf"), dtype=dtype, device=device).triu(1)


class Block(nn.Module):
    def __init__(self, channels, heads, dropout=0.0, bias=True):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.drop = nn.Dropout(dropout)
        self.ln_1, self.ln_2 = LayerNorm(channels, bias), LayerNorm(channels, bias)
        self.c_attn, self.c_proj = nn.Linear(channels, 3 * channels, bias), nn.Linear(channels, channels, bias)
        self.c_fc, self.mlp_c_proj = nn.Linear(channels, 4 * channels, bias), nn.Linear(4 * channels, channels, bias)

    def attention(self, x):
        B, T, C = x.shape
        q, k, v = (t.view(B, T, self.heads, C // self.heads).transpose(1, 2) for t in self.c_attn(x).split(C, 2))
        if hasattr(F, "scaled_dot_product_attention"):  # from PyTorch 2.0 on
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=self.dropout if self.training else 0.0)
        else:
            rows, columns = (t.reshape(B * self.heads, T, -1) for t in (q, k))
            scores = torch.baddbmm(later(T, q.dtype, x.device), rows, columns.transpose(1, 2), alpha=1 / math.sqrt(C // self.heads))
            y = self.drop(F.softmax(scores.view(B, self.heads, T, T), -1).to(v.dtype)) @ v
        return self.drop(self.c_proj(y.transpose(1, 2).reshape(B, T, C)))

    def forward(self, x):
        x = x + self.attention(self.ln_1(x))
        return x + self.drop(self.mlp_c_proj(F.gelu(self.c_fc(self.ln_2(x)), approximate="tanh")))


class GPT2(nn.Module):
    """forward(tokens, targets), both (B, T): the mean loss, in nats a token."""

    def __init__(self, layers, channels, heads, context, vocabulary=50257, dropout=0.0, bias=True, own_head=False):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, channels), nn.Embedding(context, channels)
        self.blocks = nn.ModuleList(Block(channels, heads, dropout, bias) for _ in range(layers))
        self.drop, self.ln_f = nn.Dropout(dropout), LayerNorm(channels, bias)
        self.lm_head = nn.Linear(channels, vocabulary, bias=False) if own_head else None
        for name, p in self.named_parameters():
            if p.dim() > 1:
                nn.init.normal_(p, 0, 0.02 / math.sqrt(2 * layers) if name.endswith("c_proj.weight") else 0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(p)

    def forward(self, tokens, targets):
        x = self.drop(self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1], device=tokens.device)))
        for block in self.blocks:
            x = block(x)
        head = self.wte if self.lm_head is None else self.lm_head
        logits = self.ln_f(x) @ head.weight.t()
        return F.cross_entropy(logits.view(-1, logits.size(-1)).float(), targets.view(-1))
