"""Multiplies matrices on the GPU and compares the results with those of the CPU."""

import sys

import torch

torch.manual_seed(0)
for kind, most in ((torch.float32, 1e-3), (torch.float16, 0.5), (torch.bfloat16, 4.0)):
    left, right = torch.randn(512, 512), torch.randn(512, 512)
    left, right = left.to(kind), right.to(kind)
    wanted = left.float() @ right.float()
    got = (left.cuda() @ right.cuda()).float().cpu()
    error = (wanted - got).abs().max().item()
    if not error <= most:
        sys.exit(f"{kind}: the GPU's result is off by {error}")
    print(f"computed {kind}: off by at most {error:.2g}")
