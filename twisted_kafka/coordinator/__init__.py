"""The coordinators of groups and of transactions, on one runtime over their internal topics."""
