"""Engines that tests start themselves, and two that are there for tests alone."""
