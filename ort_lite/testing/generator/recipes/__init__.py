"""Recipes by family of operators. Importing a module registers its recipes."""
