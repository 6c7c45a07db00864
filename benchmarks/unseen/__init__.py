"""Days with incidents of post-mortems and runbooks, made without knowing the detectors, in this broker's and in Kafka's log.

`world` has a cluster and its clients, `shapes` and `shapes_of_clients` have the incidents with their sources, `writers` the two logs,
`score` counts what the findings name.
"""
