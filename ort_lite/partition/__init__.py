"""Who runs what: claims, convex subgraphs, constraints, borders; `cost` weighs alternatives."""
