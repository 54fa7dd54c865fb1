"""GreedySearch, Sampling and BeamSearch: nodes whose bodies are a model that is called for every token."""
