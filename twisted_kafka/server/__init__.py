"""From a request in the queue to its answer: handler threads, dispatch, and one class per family of APIs."""
