"""Ray: rollouts of one training on many cores, and the jobs of a grid on many machines."""
