"""Days with incidents of post-mortems and runbooks, made without knowing the detectors, in this broker's and in Kafka's log.

`world` has a cluster and its clients. `shapes`, `shapes_of_clients`, `shapes_of_runbooks`, `shapes_of_practice` and
`shapes_of_forums` have the incidents with their sources. `shapes_of_quiet` and `shapes_of_calm` have what happens on other days.
`writers` has the two logs, and `score` counts what the findings name.
"""
