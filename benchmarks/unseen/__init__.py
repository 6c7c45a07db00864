"""Days with incidents of post-mortems and runbooks, made without knowing the detectors, in this broker's and in Kafka's log.

`world` has a cluster and its clients, `shapes` and `shapes_of_clients` have the incidents with their sources, `shapes_of_quiet` has
what happens on other days, `writers` has the two logs, and `score` counts what the findings name.
"""
