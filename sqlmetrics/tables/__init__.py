"""Tables as text, Markdown, HTML and LaTeX, and what every result can become."""
