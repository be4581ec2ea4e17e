package ui

import (
	"strings"
	"testing"
	"testing/fstest"
)

// The document before the page needs nothing else, and lets in what the page is made of only.
func TestSignInPage(t *testing.T) {
	body, policy, err := SignInPage()
	if err != nil {
		t.Fatal(err)
	}
	text := string(body)
	for _, wanted := range []string{"<form", "Token", "<script type=\"module\">", "<style>"} {
		if !strings.Contains(text, wanted) {
			t.Errorf("the document has no %s", wanted)
		}
	}
	for _, elsewhere := range []string{" src=", "<link rel=\"stylesheet\"", "http://", "https://", "@import", "url("} {
		if strings.Contains(text, elsewhere) {
			t.Errorf("the document has %s", elsewhere)
		}
	}
	if len(body) > 12<<10 {
		t.Errorf("the document has %d bytes", len(body))
	}
	if n := strings.Count(policy, "'sha256-"); n != 4 || strings.Contains(policy, "unsafe") {
		t.Errorf("%d contents are named: %s", n, policy)
	}
}

func TestSignInPagePolicy(t *testing.T) {
	built := fstest.MapFS{
		signInFile:           {Data: []byte("<style>a{}</style><body><script type=\"module\">1\n2</script>")},
		"ui/assets/x.js":     {Data: []byte("3")},
		"ui/assets/x.js.br":  {Data: []byte("-")},
		"ui/assets/x.css":    {Data: []byte("b{}")},
		"ui/assets/icon.svg": {Data: []byte("<svg/>")},
	}
	_, policy, err := signInPage(built)
	// By another program: printf '1\n2' | openssl dgst -sha256 -binary | base64, and so on.
	for _, wanted := range []string{
		"default-src 'none'; ", "script-src 'sha256-tZizpio/fO2xfmbRyzHVPf/uuvXAfixg1eMZcZNv014=' 'sha256-TgdAhWK+24tgzgXB3s/jrRa3IjCWfeAfZAt+Rym0n84='; ", "style-src 'sha256-X1RutGBrXCt9KkSaXMK7tHftWiRscFHOhxsS8tv8hBk=' 'sha256-7yqHVAesot11p6HczDsgKRipvI5UPgs97z80zNXlans='; ", "connect-src 'self'; ",
	} {
		if err != nil || !strings.Contains(policy, wanted) {
			t.Errorf("%s is not in %s (%v)", wanted, policy, err)
		}
	}
	delete(built, signInFile)
	if _, _, err := signInPage(built); err == nil {
		t.Error("a page without the document")
	}
}
