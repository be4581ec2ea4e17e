package ui

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
)

// ask asks for a file, with headers in pairs.
func (p *page) ask(path string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return p.do(r)
}

const browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"

func TestPageOrText(t *testing.T) {
	p := newPage(t)
	for accept, html := range map[string]bool{
		"": false, "*/*": false, "application/json": false, browser: true, "text/html;q=0": false, "TEXT/HTML; q=0.1": true, "text/html;q=x": false,
	} {
		w := p.ask("/", "Accept", accept)
		isPage := strings.Contains(w.Body.String(), "<html")
		if w.Code != http.StatusOK || isPage != html || !isPage && w.Body.String() != "hello\n" || !strings.Contains(w.Header().Get("Vary"), "Accept") {
			t.Errorf("%q: %d %.40s", accept, w.Code, w.Body)
		}
	}
	for path, to := range map[string]string{"/ui": "./", "/ui/": "../"} {
		if w := p.ask(path); w.Code != http.StatusTemporaryRedirect || w.Header().Get("Location") != to {
			t.Errorf("%s: %d to %q", path, w.Code, w.Header().Get("Location"))
		}
	}
	for _, path := range []string{"/ui/assets/nothing.js", "/ui/assets/", "/ui/assets/../../index.html"} {
		if w := p.ask(path); w.Code == http.StatusOK {
			t.Errorf("%s is there", path)
		}
	}
}

// The page names no other place, and all that it names is there, in every encoding.
func TestAssets(t *testing.T) {
	p := newPage(t)
	w := p.ask("/", "Accept", browser)
	if !strings.Contains(w.Header().Get("Content-Security-Policy"), "default-src 'self'") || w.Header().Get("Cache-Control") != "no-cache" {
		t.Fatalf("header %v", w.Header())
	}
	index := w.Body.String()
	named := regexp.MustCompile(`(?:src|href)="([^"]*)"`).FindAllStringSubmatch(index, -1)
	if len(named) < 3 || strings.Contains(index, "<style") || regexp.MustCompile(`<script[^>]*>[^<]`).MatchString(index) {
		t.Fatalf("the page has scripts or styles within, or names too little: %s", index)
	}
	total := 0
	for _, match := range named {
		path, relative := strings.CutPrefix(match[1], "./")
		if !relative {
			t.Errorf("%s does not work below a prefix", match[1])
		}
		plain := p.ask("/" + path)
		tag := plain.Header().Get("ETag")
		if plain.Code != http.StatusOK || tag == "" || !strings.Contains(plain.Header().Get("Cache-Control"), "immutable") || plain.Header().Get("Content-Encoding") != "" {
			t.Fatalf("%s: %d %v", path, plain.Code, plain.Header())
		}
		if again := p.ask("/"+path, "If-None-Match", `"x", `+tag); again.Code != http.StatusNotModified || again.Body.Len() != 0 {
			t.Errorf("%s is sent again: %d", path, again.Code)
		}
		packed := p.ask("/"+path, "Accept-Encoding", "deflate, gzip;q=0.5")
		if packed.Header().Get("Content-Encoding") == "gzip" {
			r, err := gzip.NewReader(packed.Body)
			if err != nil {
				t.Fatal(err)
			}
			if text, err := io.ReadAll(r); err != nil || !bytes.Equal(text, plain.Body.Bytes()) {
				t.Errorf("%s: gzip gives something else: %v", path, err)
			}
		}
		best := p.ask("/"+path, "Accept-Encoding", "gzip, br")
		total += best.Body.Len()
		for _, other := range []*httptest.ResponseRecorder{packed, best} {
			if other.Header().Get("Content-Encoding") != "" && other.Header().Get("ETag") == tag {
				t.Errorf("%s: two forms have one tag", path)
			}
		}
		if none := p.ask("/"+path, "Accept-Encoding", "br;q=0, gzip;q=0"); none.Header().Get("Content-Encoding") != "" {
			t.Errorf("%s comes compressed though that was refused", path)
		}
	}
	if total > 70_000 {
		t.Errorf("the page has %d bytes, compressed", total)
	}
	t.Logf("the page has %d bytes, compressed", total)
}

// A built page without its files is an error, not a page that shows nothing.
func TestDamagedBuild(t *testing.T) {
	for _, built := range []fstest.MapFS{{}, {indexFile: {Data: []byte("x")}}} {
		if _, err := newFiles(built); err == nil {
			t.Errorf("%v is taken for a page", built)
		}
	}
}

func FuzzHeaders(f *testing.F) {
	f.Add(browser, "text/html")
	f.Add("br;q=0, gzip; q=0.001", "gzip")
	f.Add(`W/"a", *`, `"a"`)
	f.Fuzz(func(t *testing.T, value, wanted string) {
		_ = tagged([]string{value}, wanted)
		if accepts([]string{value}, wanted) && !strings.Contains(strings.ToLower(value), strings.ToLower(strings.TrimSpace(wanted))) && isASCII(value+wanted) {
			t.Fatalf("%q names %q", value, wanted)
		}
	})
}

func isASCII(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r > 127 }) < 0
}
