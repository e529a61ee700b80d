"""What tests of the dashboard's pages share."""

from collections.abc import Iterator

import pytest


@pytest.fixture
def nothing_remembered() -> Iterator[None]:
    """Streamlit's caches are empty after the test."""
    yield
    import streamlit as st

    st.cache_data.clear()
    st.cache_resource.clear()
