"""A Ray cluster of two nodes on this machine, for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from sgrl.cluster.connection import STORE_BYTES, require_ray

NODE = {"num_cpus": 1, "object_store_memory": STORE_BYTES, "include_dashboard": False}


@pytest.fixture(scope="session")
def cluster() -> Iterator[Any]:
    """Two nodes with a core each; `cluster.address` is that of the head."""
    ray = require_ray("a test")
    from ray.cluster_utils import Cluster

    # A node counts as lost after five missed checks.
    config = {"health_check_period_ms": 1000}
    made = Cluster(initialize_head=True, head_node_args=NODE | {"_system_config": config})
    try:
        made.add_node(**NODE)
        made.wait_for_nodes()
        yield made
    finally:
        ray.shutdown()
        made.shutdown()
