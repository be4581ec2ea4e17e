# Settings of Sphinx for hack/scripts/site.sh. All that pages load is on the site itself.
project = "TickMesh"
extensions = ["myst_parser"]
root_doc = "index"
nitpicky = True
suppress_warnings = ["misc.highlighting_failure"]  # examples may leave out parts by …
smartquotes = False  # they would make a dash of the two hyphens of a flag
myst_heading_anchors = 6

html_theme = "furo"
html_title = "TickMesh"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_favicon = "static/icon.svg"
html_logo = "static/icon.svg"
html_copy_source = False
html_show_sourcelink = False
html_use_index = False
html_show_copyright = False
pygments_style = "friendly"
pygments_dark_style = "github-dark"
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0b5fb0", "color-brand-content": "#0b5fb0"},
    "dark_css_variables": {"color-brand-primary": "#63aef5", "color-brand-content": "#63aef5"},
}
