"""A dashboard that is served, and a browser, for every test of a page."""

from tests.page.test_dashboard import browser, served  # noqa: F401 - fixtures are asked for by name
