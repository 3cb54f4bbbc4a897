"""Imports vLLM and PyTorch, and prints their versions."""

import torch
import vllm

print("torch", torch.__version__, "hip", torch.version.hip)
print("vllm", vllm.__version__)
