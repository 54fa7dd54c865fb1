"""Partitioning by estimated or measured cost: placing nodes where the sum of running and copying is least.

    options.add_session_config_entry("ort_lite.partitioning", "cost")
    InferenceSession(model, providers=[...], partitioning=CostStrategy(CostModel.load("measured.json")))

Greedy is where every strategy starts from: each node to the first provider that takes it.
"""

from ort_lite.partition.cost.cost_model import CostModel, Rates
from ort_lite.partition.cost.strategy import CostStrategy, Strategy

__all__ = ["CostModel", "CostStrategy", "Rates", "Strategy"]
