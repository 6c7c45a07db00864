"""Days with incidents of post-mortems and runbooks, made without knowing the detectors, in this broker's and in Kafka's log.

`world` has a cluster and its clients. `shapes`, `shapes_of_clients`, `shapes_of_runbooks`, `shapes_of_practice`,
`shapes_of_forums`, `shapes_of_pagers`, `shapes_of_tickets`, and `operations` and `people` of `fourth`, `fifth` and `sixth` have the
incidents with their sources. `shapes_of_quiet`, `shapes_of_calm`, `shapes_of_habits`, and `habits` of `fourth`, `fifth` and `sixth`
have the events of other days. `writers` has the two logs, and `score` counts what the findings name.
"""
