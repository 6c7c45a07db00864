"""The connections of a broker to the others of its cluster. A broker that is alone pays nothing for it."""
