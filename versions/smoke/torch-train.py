"""Trains a small network on the GPU for 50 steps, and checks that the loss has halved."""

import sys

import torch

torch.manual_seed(0)
model = torch.nn.Sequential(
    torch.nn.Linear(64, 256), torch.nn.GELU(), torch.nn.Linear(256, 1)
).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
inputs = torch.randn(1024, 64, device="cuda")
wanted = inputs[:, :8].sum(dim=1, keepdim=True)
losses = []
for _ in range(50):
    loss = torch.nn.functional.mse_loss(model(inputs), wanted)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
if not losses[-1] < losses[0] / 2:
    sys.exit(f"the training failed: the loss went from {losses[0]} to {losses[-1]}")
print(f"trained 50 steps: the loss went from {losses[0]:.3f} to {losses[-1]:.3f}")
