"""What the integration tests stand on: real servers, started on free ports and surely stopped."""
