"""``twisted-kafka mcp``: the console's queries and actions as tools for agents (Model Context Protocol)."""
