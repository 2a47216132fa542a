"""Iceberg table maintenance for Airflow. Importing this package imports nothing heavy."""

from __future__ import annotations

__version__ = "0.1.0"
