package ui

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"
)

const signInFile = "signin.html"

// within finds what a document has within its elements of scripts and styles.
var within = regexp.MustCompile(`(?s)<(script|style)(?: [^>]*)?>(.+?)</(?:script|style)>`)

// SignInPage returns the document in which a person says who is there, for answers with the status
// 401, and its Content-Security-Policy. It has all that it needs within. Once somebody is
// known it asks for the files of the page, and puts them in its own place: so the policy
// names by their content its own script and style, and those of the page, and no others can
// be put in. Errors: of a page that was not built whole.
func SignInPage() (body []byte, policy string, err error) { return signInPage(embedded()) }

func signInPage(built fs.FS) (body []byte, policy string, err error) {
	if body, err = fs.ReadFile(built, signInFile); err != nil {
		return nil, "", fmt.Errorf("the built page: %w", err)
	}
	named := map[string][]string{} // what may be put in, by the kind of element
	for _, found := range within.FindAllSubmatch(body, -1) {
		kind := string(found[1])
		named[kind] = append(named[kind], sourceOf(found[2]))
	}
	entries, err := fs.ReadDir(built, assetsDir)
	if err != nil {
		return nil, "", fmt.Errorf("the built page: %w", err)
	}
	kinds := map[string]string{".js": "script", ".css": "style"}
	for _, entry := range entries {
		kind := kinds[path.Ext(entry.Name())]
		if kind == "" {
			continue
		}
		content, err := fs.ReadFile(built, path.Join(assetsDir, entry.Name()))
		if err != nil {
			return nil, "", fmt.Errorf("the built page: %w", err)
		}
		named[kind] = append(named[kind], sourceOf(content))
	}
	policy = "default-src 'none'; script-src " + strings.Join(named["script"], " ") + "; style-src " + strings.Join(named["style"], " ") +
		"; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
	return body, policy, nil
}

// sourceOf names a script or style by its content (CSP Level 3, section 2.3.1).
func sourceOf(content []byte) string {
	sum := sha256.Sum256(content)
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}
