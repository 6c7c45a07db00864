"""The messages of the protocol, one module per area; import the module you need, or use ``protocol.api.find_message``."""
