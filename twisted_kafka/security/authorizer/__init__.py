"""Access control lists, and the authorizer that decides with them."""
