"""ApiVersions, cluster metadata, client telemetry and requests from the controller."""
