"""The partition's half of share groups (KIP-932): records that members of a group acquire and acknowledge."""
