"""Imports vLLM and what it stands on, and says their versions."""

import torch
import vllm

print("torch", torch.__version__, "hip", torch.version.hip)
print("vllm", vllm.__version__)
