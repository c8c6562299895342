"""Processors that learning libraries may take."""

from __future__ import annotations

__all__ = ["limit_torch_threads"]


def limit_torch_threads() -> None:
    """Learn and act on one core: small networks gain nothing from more, and others need them."""
    import torch

    torch.set_num_threads(1)
