"""Prepared programs: what creating a session computes, stored in the cache, from which an equal session is created sooner."""
