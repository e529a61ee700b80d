"""Texts that try to break out of a document: markup, commands, control characters, lone surrogates."""

from hypothesis import strategies as st

PIECES = (
    *(
        "`",
        "``",
        "|",
        "\\",
        "\\|",
        "\n",
        "\r\n",
        "\t",
        " ",
        "]]>",
        "<!--",
        "<b>",
        "</testcase>",
        "&amp;",
        "&#0;",
    ),
    *(
        "::error::",
        "%0A",
        "%",
        ":",
        ",",
        "\x00",
        "\x1b[2J",
        "\x85",
        "\u2028",
        "\u202e",
        "\ud800",
        "\udfff",
        "\ufffe",
    ),
    *(
        "@team",
        "#1",
        "http://a.b",
        "www.a.b",
        "[a](b)",
        "{0}",
        "}",
        '"',
        "'",
        "_a_",
        "*a*",
        "~a~",
        "$a$",
        "1.",
        "-",
    ),
)

hostile_texts = st.lists(
    st.sampled_from(PIECES) | st.characters(exclude_categories=()), min_size=1, max_size=8
).map("".join)
