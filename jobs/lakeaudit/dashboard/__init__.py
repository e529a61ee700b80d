"""The dashboard shows the result tables as pages. `queries` reads the tables, the pages show the rows."""
