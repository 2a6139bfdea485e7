"""The paper's evaluations: grids of trainings, what is tried on them, tables and figures."""
