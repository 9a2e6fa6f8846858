"""Display: one parser for Markdown, and how it is shown in a terminal, on a page and in each
chat."""

__all__ = [
    "chunks",
    "cleaning",
    "columns",
    "conversation",
    "dialects",
    "html",
    "languages",
    "reading",
    "terminal",
]
