"""Who gets a node: strategies of the partitioner beside the greedy one, and the costs that they go by.

    options.add_session_config_entry("ort_lite.partitioning", "cost")
    InferenceSession(model, providers=[...], partitioning=CostStrategy(CostModel.load("measured.json")))

Greedy is where every strategy starts from: each node to the first provider that takes it.
"""

from ort_lite.partitioning.cost_model import CostModel, Rates
from ort_lite.partitioning.measure import costs_of_profile, measure_costs
from ort_lite.partitioning.strategy import CostStrategy, Strategy

__all__ = ["CostModel", "CostStrategy", "Rates", "Strategy", "costs_of_profile", "measure_costs"]
