"""The messages of the protocol, by area; import the area that you need, or ask ``protocol.api.find_message``."""
