"""The findings of a report, with evidence: `thresholds` has the limits, each module the detectors of one subject."""
