"""Run the command line."""

import sys

from twisted_kafka_spark.cli import main

sys.exit(main())
