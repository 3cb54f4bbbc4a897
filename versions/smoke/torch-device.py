"""Lists the GPUs that PyTorch finds."""

import sys

import torch

if not torch.cuda.is_available():
    sys.exit("PyTorch finds no GPU")
for index in range(torch.cuda.device_count()):
    found = torch.cuda.get_device_properties(index)
    target = getattr(found, "gcnArchName", "unknown target")
    print(f"device {index}: {found.name}, {target}, {found.total_memory >> 20} MiB")
