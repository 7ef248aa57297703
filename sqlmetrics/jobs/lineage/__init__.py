"""What a run reads and writes, as catalogues of lineage know it."""
