"""How the controller's decisions reach brokers: collected requests, and a channel to each broker."""
