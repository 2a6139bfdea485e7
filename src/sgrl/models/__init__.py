"""Methods: actors and critics as pure functions of a batch of limbs."""
