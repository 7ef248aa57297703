"""Offline metrics held against past experiments: which of them foretells the online one."""
