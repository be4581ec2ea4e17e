#!/bin/sh
# Builds the site of all pages that hack/site/site.yaml names into bin/site, with Sphinx from a virtual environment in
# .cache. A dead link, in the repository or on the site, is an error, and so is a page that loads something from elsewhere.
set -eu
cd "$(dirname "$0")/../.."
python3 -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || {
	echo "site: there is no Python 3.11 with venv (apt-get install python3-venv)" >&2
	exec go run ./hack/skips -script site
}
venv=$PWD/.cache/site/python
[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
"$venv/bin/pip" install --quiet --disable-pip-version-check -r hack/site/requirements.txt

go run ./hack/site stage .cache/site/pages
rm -rf bin/site
"$venv/bin/sphinx-build" --quiet --fresh-env --fail-on-warning --keep-going --builder html \
	--conf-dir hack/site --doctree-dir .cache/site/doctrees .cache/site/pages bin/site
go run ./hack/site check bin/site
echo "site: bin/site/index.html"
