"""What can be asked: metrics, options, presets, online metrics."""
