"""Java, the Spark session and their errors."""
