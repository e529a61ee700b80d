"""Values of DynamoDB items in SQL: a number is text of up to 38 digits, with a fraction or exponent."""

LAST_MILLISECOND = 253_402_300_799_999
"""The end of the year 9999: Python and Arrow cannot represent a later time."""
LARGEST = (1 << 63) - 1
_FIRST_MILLISECOND = 100_000_000_000
"""A smaller number is in seconds: in milliseconds it would be before S3 existed."""


def whole_number(name: str, largest: int) -> str:
    """SQL of an attribute as a whole number from 0 to `largest`, else null. Nearly all are plain digits."""
    text, whole = f"{name}.N", f"TRY_CAST({name}.N AS BIGINT)"
    decimal = f"TRY_CAST({text} AS DECIMAL(38, 6))"
    plain = f"{whole} BETWEEN 0 AND {largest} AND CAST({whole} AS VARCHAR) = {text}"
    # TRY_CAST keeps a decimal that is larger than its type, and no other function accepts it
    rounded = f"TRY_CAST({decimal} AS BIGINT)"
    odd = f"{rounded} = {decimal} AND {rounded} BETWEEN 0 AND {largest} AND NOT contains({text}, '_')"
    return f"CASE WHEN {plain} THEN {whole} WHEN {odd} THEN {rounded} END"


def time_of(name: str) -> str:
    """SQL of an attribute as a time, of epoch milliseconds or seconds; null: it is neither, or 0."""
    number = whole_number(name, LAST_MILLISECOND)
    return f"epoch_ms(nullif(CASE WHEN {number} < {_FIRST_MILLISECOND} THEN {number} * 1000 ELSE {number} END, 0))"
