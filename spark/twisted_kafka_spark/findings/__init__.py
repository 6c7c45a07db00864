"""The findings of a report, with evidence: `thresholds` has the limits, `detectors` and `anomalies` the detection."""
