"""The whole story on a local folder, for `make demo`."""
