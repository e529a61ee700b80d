"""What the dashboard's pages show, as a few rows each, asked of the result tables. Knows nothing of the pages."""
