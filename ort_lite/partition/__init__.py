"""Assignment of nodes to providers: claims, convex subgraphs, constraints, borders; `cost` weighs alternatives."""
