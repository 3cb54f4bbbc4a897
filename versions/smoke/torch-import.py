"""Imports PyTorch, and prints its version and the GPUs that it has code for."""

import torch

print("torch", torch.__version__, "hip", torch.version.hip)
print("code for", " ".join(torch.cuda.get_arch_list()) or "no GPU")
