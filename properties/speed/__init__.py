"""How fast the manager's calls are: beside the stock manager, and beside the least they can cost.

Begin with `scenarios`, which says what is measured; `side` says how a manager is driven.
"""
