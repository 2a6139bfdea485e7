"""Pictures and videos of bodies."""
