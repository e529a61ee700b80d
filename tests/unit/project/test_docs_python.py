"""docs/python-reference.md is what the docstrings say."""

from tests.python_reference import PAGE, reference


def test_the_reference_is_generated_from_the_docstrings() -> None:
    assert PAGE.read_text("utf-8") == reference(), "run `python -m tests.python_reference`"
