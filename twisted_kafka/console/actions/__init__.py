"""What a user may change. Each action first shows a preview of what will change, which changes nothing."""
