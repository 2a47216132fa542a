"""The built-in profiles: what an environment usually wants, below everything the file says."""

from __future__ import annotations

from typing import Any

from airflow_iceberg_compaction.policy.nodes import Mapping, from_plain

DEFAULT_PROFILE = "production"

_SIZES: dict[str, Any] = {"small_file_size": "64MB"}
_TARGET: dict[str, Any] = {"target_file_size": "128MB"}

# In the spelling of the file, so that they pass through the same validation as what people write.
BUILT_IN: dict[str, dict[str, Any]] = {
    # A laptop's table is small and was written a minute ago: look often, wait for nothing, do little at a time.
    "development": {
        "thresholds": {**_SIZES, "min_small_files": 3},
        "rewrite": {**_TARGET, "max_files": 100, "min_quiet": "0s"},
        "check_interval": 5,
    },
    "staging": {"thresholds": {**_SIZES, "min_small_files": 15}, "rewrite": _TARGET, "check_interval": 75},
    "production": {"thresholds": {**_SIZES, "min_small_files": 20}, "rewrite": _TARGET, "check_interval": 100},
}


def built_in_profile(name: str) -> Mapping:
    """The tree of a built-in profile; KeyError if there is none of that name."""
    tree = from_plain(BUILT_IN[name], layer=name)
    return tree if isinstance(tree, Mapping) else Mapping()
