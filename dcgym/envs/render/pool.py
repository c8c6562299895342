"""A picture of a server pool: queues as bars over processors. Loaded only when asked for."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dcgym.errors import MissingDependency

__all__ = ["draw_servers"]

SIZE_INCHES = (8.0, 5.0)
DPI = 100
# The axis reaches at least this far, so that an idle pool does not look full.
LEAST_FLOWS = 8
COLOURS = ("#2a9d8f", "#e9c46a")
MARKERS = "ov^sD*"


def draw_servers(
    queues: npt.NDArray[Any], workers: npt.NDArray[Any], weights: npt.NDArray[np.float64]
) -> npt.NDArray[np.uint8]:
    """Return an RGB image, 500 x 800 x 3.

    Each server is a bar: flows in service below, waiting ones above, a line at its processors.
    Markers above show the weights of each balancer, over the largest one.

    Args:
        queues: Flows at each server, shape (N,).
        workers: Processors of each server, shape (N,).
        weights: Weights in force, one row a balancer, shape (A, N).
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingDependency("matplotlib", "report") from error
    figure = Figure(figsize=SIZE_INCHES, dpi=DPI, layout="constrained")
    canvas = FigureCanvasAgg(figure)
    shares, flows = figure.subplots(2, 1, sharex=True, height_ratios=(1, 3))
    _draw_weights(shares, weights)
    _draw_queues(flows, queues, workers)
    canvas.draw()  # type: ignore[no-untyped-call]
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()  # type: ignore[no-untyped-call]


def _draw_weights(axes: Any, weights: npt.NDArray[np.float64]) -> None:
    for row, values in enumerate(weights):
        marker = MARKERS[row % len(MARKERS)]
        axes.plot(values / values.max(), marker, color="0.2", markersize=5, alpha=0.7)
    axes.set_ylim(0, 1.1)
    axes.set_ylabel("weight")


def _draw_queues(axes: Any, queues: npt.NDArray[Any], workers: npt.NDArray[Any]) -> None:
    servers = np.arange(queues.size)
    served = np.minimum(queues, workers)
    axes.bar(servers, served, color=COLOURS[0], label="in service")
    axes.bar(servers, queues - served, bottom=served, color=COLOURS[1], label="waiting")
    axes.step(
        np.append(servers, queues.size) - 0.5,
        np.append(workers, workers[-1]),
        "0.3",
        where="post",
        linewidth=1,
        label="processors",
    )
    axes.set_ylim(0, max(LEAST_FLOWS, float(queues.max()) * 1.1))
    axes.set_xlabel("server")
    axes.set_ylabel("flows")
    axes.legend(loc="upper right", ncols=3, frameon=False)
