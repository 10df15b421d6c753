# How `make site` makes pages of the Markdown files, with Sphinx: README.md is the first.
project = "lineage"
root_doc = "README"
include_patterns = ["*.md", "docs/**.md"]
extensions = ["myst_parser"]
myst_heading_anchors = 4
html_theme = "furo"
html_title = "lineage"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_extra_path = ["index.html"]
html_copy_source = False
html_show_copyright = False
html_show_sphinx = False
html_show_search_summary = False  # the script would fetch the pages, which no browser does from a folder

# The menu, as the README groups the pages.
menu = {
    "Learn": "docs/TUTORIAL docs/HOW-IT-WORKS",
    "Do": "docs/INSTALL docs/HOWTO docs/AGENTS docs/RECIPES docs/CONTAINERS docs/MONITORING docs/TELEMETRY docs/SIEM",
    "Look up": "docs/COMMANDS docs/REFERENCE docs/API docs/POLICY docs/FLEET docs/TOP",
    "Judge": "docs/SECURITY docs/ASSURANCE docs/results/bugs KNOWN_ISSUES docs/COMPATIBILITY docs/results/kernels docs/results/escapes BENCHMARKS",
    "Change": "CONTRIBUTING docs/CODEBASE docs/DESIGN CHANGELOG docs/results/change docs/results/nightly",
}


def read(app, page, source):
    if page == root_doc:
        for caption, pages in menu.items():
            source[0] += "\n\n```{toctree}\n:hidden:\n:caption: %s\n\n%s\n```\n" % (caption, "\n".join(pages.split()))


def setup(app):
    app.connect("source-read", read)
