"""Request handling: handler threads, dispatch, fetch sessions, and one class per family of APIs."""
