"""Display: one reading of Markdown, and how it looks in a terminal, on a page and in each chat."""

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
