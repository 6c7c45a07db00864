"""Names that the command line lets users choose. It imports nothing, so ``report --help`` loads neither numpy nor pyarrow."""

PARQUET, DELTA, ICEBERG = TABLE_FORMATS = ("parquet", "delta", "iceberg")
OCSF, CLOUD_EVENTS = EVENT_FORMATS = ("ocsf", "cloudevents")
SOURCE = "log"
"""The name of the lines that are rolled up, unless there are several logs for one directory."""
