"""What is known of one file, folder or discrepancy: the command and the dashboard show it."""
