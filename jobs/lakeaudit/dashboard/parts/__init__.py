"""Parts of pages that several pages show."""
