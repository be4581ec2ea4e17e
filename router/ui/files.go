package ui

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strconv"
	"strings"
)

//go:embed all:dist
var dist embed.FS

// embedded returns the files of the built page.
func embedded() fs.FS {
	built, err := fs.Sub(dist, "dist")
	if err != nil {
		panic(err) // the folder is a constant
	}
	return built
}

// The names of files in the built page.
const (
	indexFile  = "index.html"
	assetsDir  = "ui/assets"
	brotliMark = ".br"
)

// file is one file in the encodings that there are of it.
type file struct {
	contentType         string
	tag                 string // ETag of the plain form, without quotes
	plain, gzip, brotli []byte // the latter two nil where they would save nothing
}

// files are those of the page, which never change while the program runs.
type files struct {
	index  *file
	assets map[string]*file
}

// newFiles reads and compresses the files of a built page: index.html, and assets whose
// names change with their content. A name ending in .br is the compressed form of another.
func newFiles(built fs.FS) (*files, error) {
	all := &files{assets: map[string]*file{}}
	index, err := newFile(built, indexFile)
	if err != nil {
		return nil, err
	}
	all.index = index
	entries, err := fs.ReadDir(built, assetsDir)
	if err != nil {
		return nil, fmt.Errorf("the built page: %w", err)
	}
	for _, entry := range entries {
		if strings.HasSuffix(entry.Name(), brotliMark) {
			continue
		}
		asset, err := newFile(built, path.Join(assetsDir, entry.Name()))
		if err != nil {
			return nil, err
		}
		all.assets[entry.Name()] = asset
	}
	return all, nil
}

func newFile(built fs.FS, name string) (*file, error) {
	plain, err := fs.ReadFile(built, name)
	if err != nil {
		return nil, fmt.Errorf("the built page: %w", err)
	}
	sum := sha256.Sum256(plain)
	f := &file{contentType: contentType(name), tag: hex.EncodeToString(sum[:12]), plain: plain}
	var packed bytes.Buffer
	w, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(plain); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	if packed.Len() < len(plain) {
		f.gzip = packed.Bytes()
	}
	if brotli, err := fs.ReadFile(built, name+brotliMark); err == nil && len(brotli) < len(plain) {
		f.brotli = brotli
	}
	return f, nil
}

func contentType(name string) string {
	switch ext := path.Ext(name); ext { // whatever the machine's table of types says
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".html":
		return "text/html; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
	default:
		return mime.TypeByExtension(ext)
	}
}

// page serves / : the page to browsers, a line of text to others.
func (h *handler) page(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Vary", "Accept, Accept-Encoding")
	if !accepts(r.Header.Values("Accept"), "text/html") {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		fmt.Fprintln(w, h.Banner)
		return
	}
	w.Header().Set("Cache-Control", "no-cache") // it may be kept, and is asked for again
	h.files.index.serve(w, r)
}

// asset serves a file whose name changes with its content.
func (h *handler) asset(w http.ResponseWriter, r *http.Request) {
	f := h.files.assets[r.PathValue("name")]
	if f == nil {
		http.Error(w, "there is no such file: the page may be of another version; load it again", http.StatusNotFound)
		return
	}
	w.Header().Set("Vary", "Accept-Encoding")
	w.Header().Set("Cache-Control", "max-age=31536000, immutable")
	f.serve(w, r)
}

func (f *file) serve(w http.ResponseWriter, r *http.Request) {
	body, encoding := f.plain, ""
	offered := r.Header.Values("Accept-Encoding")
	switch {
	case f.brotli != nil && accepts(offered, "br"):
		body, encoding = f.brotli, "br"
	case f.gzip != nil && accepts(offered, "gzip"):
		body, encoding = f.gzip, "gzip"
	}
	tag := f.tag
	if encoding != "" {
		tag += "-" + encoding
		w.Header().Set("Content-Encoding", encoding)
	}
	tag = `"` + tag + `"`
	w.Header().Set("ETag", tag)
	if tagged(r.Header.Values("If-None-Match"), tag) {
		w.Header().Del("Content-Encoding")
		w.WriteHeader(http.StatusNotModified)
		return
	}
	w.Header().Set("Content-Type", f.contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body) // a reader that has gone needs nothing
}

// tagged reports whether a client has what the tag names (RFC 9110, section 13.1.2).
func tagged(values []string, tag string) bool {
	for _, value := range values {
		for candidate := range strings.SplitSeq(value, ",") {
			candidate = strings.TrimPrefix(strings.TrimSpace(candidate), "W/")
			if candidate == tag || candidate == "*" {
				return true
			}
		}
	}
	return false
}

// accepts reports whether the values of an Accept or Accept-Encoding header name something,
// and do not exclude it by a quality of 0 (RFC 9110, section 12.5). Wildcards do not count:
// curl, which wants text, sends */*.
func accepts(values []string, wanted string) bool {
	for _, value := range values {
		for item := range strings.SplitSeq(value, ",") {
			name, parameters, _ := strings.Cut(item, ";")
			if strings.EqualFold(strings.TrimSpace(name), wanted) {
				return quality(parameters) > 0
			}
		}
	}
	return false
}

// quality returns the value of the parameter q; without one it is 1, and what is none is 0.
func quality(parameters string) float64 {
	for parameter := range strings.SplitSeq(parameters, ";") {
		name, value, _ := strings.Cut(parameter, "=")
		if strings.EqualFold(strings.TrimSpace(name), "q") {
			q, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil || q != q {
				return 0
			}
			return q
		}
	}
	return 1
}
