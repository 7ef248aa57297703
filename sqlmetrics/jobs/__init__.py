"""A spec's metrics as tables that a scheduler refreshes: days replaced whole, or not at all."""
