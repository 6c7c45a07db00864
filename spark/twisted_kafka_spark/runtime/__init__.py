"""Java, the Spark session and what goes wrong with them."""
