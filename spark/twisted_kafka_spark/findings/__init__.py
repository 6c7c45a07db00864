"""What the report says is wrong, with its evidence: see `thresholds` for when, `detectors` and `anomalies` for how."""
