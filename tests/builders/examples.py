"""How many examples of a property are drawn: few in `make test`, many in `make soak`."""

from hypothesis import settings


def examples(few: int, many: int) -> settings:
    """Return settings with `few` examples, or `many` with the profile of `make soak`."""
    return settings(max_examples=many if settings.get_current_profile_name() == "many" else few)
