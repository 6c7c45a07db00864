"""Clients that want to harm a broker: what they send is made from the declarations of the messages."""
